// Package sdk names the versions of the bus SDK that guests get; see build.sh.
package sdk

import _ "embed"

// PythonRequirements is the pip requirements file of the Python SDK: it and
// everything that it needs, pinned.
//
//go:embed requirements.txt
var PythonRequirements []byte
