// Package guest holds the program that the operator plants into sandboxes and
// builds the executions of it: an argument vector and a standard input each,
// whose output ParseReply reads. It knows neither sandboxes nor the bus.
package guest

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
)

const (
	// Directory holds the private folder of each version of the agent. It lies
	// directly under the root, because other folders may be shared between the
	// sandboxes of one image (contracts/iii-sandbox.md §6.1).
	Directory = "/sandbox-operator"
	// ModuleDirectory is where programs anywhere in the guest find the Node SDK
	// (contracts/code-runner.md §10).
	ModuleDirectory = "/node_modules"
	// PackagesDirectory is searched by Python programs after the interpreter's
	// own folders. For Node, packages belong into Directory + "/node_modules".
	PackagesDirectory = Directory + "/python-packages"

	// BakedDirectory is where an image of guest/images holds an agent. It is one of
	// the folders of an image that a sandbox sees (contracts/iii-sandbox.md §6.1).
	BakedDirectory = "/opt/sandbox-operator"
	// BakedManifest says, in JSON, which agent that is; see Baked.
	BakedManifest = BakedDirectory + "/baked.json"

	pathDigestLength = 12
)

// ErrNotBuilt says that this binary was compiled without the agent.
var ErrNotBuilt = errors.New("the guest agent is not part of this build: run make build")

//go:embed all:dist
var dist embed.FS

// LinkProgram returns the embedded program that opens links, or ErrNotBuilt. It
// is to be written at AgentProgram.LinkPath with mode 0755. The first call unpacks
// it; callers must not change its bytes. Safe for concurrent use.
func LinkProgram() ([]byte, error) { return linkProgram() }

var linkProgram = sync.OnceValues(func() ([]byte, error) { return unpack(dist, "dist/link.gz") })

// AgentProgram is the in-guest agent as it is to be written into a sandbox,
// with mode 0755, at Path.
type AgentProgram struct {
	Bytes []byte
	// Digest is the SHA-256 of Bytes in lower-case hexadecimal.
	Digest string
}

// Program returns the embedded agent, or ErrNotBuilt. The first call unpacks
// it; callers must not change its bytes. Safe for concurrent use.
func Program() (AgentProgram, error) { return program() }

var program = sync.OnceValues(func() (AgentProgram, error) {
	content, err := unpack(dist, "dist/agent.gz")
	if err != nil {
		return AgentProgram{}, err
	}
	return AgentProgram{Bytes: content, Digest: digestOf(content)}, nil
})

func unpack(files fs.FS, name string) ([]byte, error) {
	packed, err := fs.ReadFile(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotBuilt
	}
	if err != nil {
		return nil, err
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", name, err)
	}
	content, err := io.ReadAll(unzipped)
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", name, err)
	}
	return content, nil
}

// Path is where the agent goes: a private folder per version, so that a new
// operator and an old guest never mix.
func (p AgentProgram) Path() string { return path.Join(p.folder(), "agent") }

// LinkPath is where the program goes that opens links; it is written only when
// there is to be one.
func (p AgentProgram) LinkPath() string { return path.Join(p.folder(), "link") }

// RequestPath is where a request too large for standard input may be written,
// under a name of the caller's; the agent removes the file once it has read it.
func (p AgentProgram) RequestPath(name string) string {
	return path.Join(p.folder(), "requests", name+".json")
}

func (p AgentProgram) folder() string { return path.Join(Directory, p.Digest[:pathDigestLength]) }

// Baked is the content of BakedManifest.
type Baked struct {
	// agentDigest: SHA-256 of the agent, which lies at BakedPath.
	AgentDigest string `json:"agentDigest"`
}

// BakedPath is where an image holds this agent, if it does.
func (p AgentProgram) BakedPath() string {
	return path.Join(BakedDirectory, p.Digest[:pathDigestLength], "agent")
}

// SourceDigest names a source: its SHA-256 in lower-case hexadecimal.
func SourceDigest(source []byte) string { return digestOf(source) }

func digestOf(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}
