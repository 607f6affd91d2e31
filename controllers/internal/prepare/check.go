package prepare

import (
	"errors"
	"fmt"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/environment"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// maxContentBytes bounds one literal content. The API server counts characters,
// of which each may have four bytes.
const maxContentBytes = 32 << 10

// InvalidError says that a spec breaks a rule which the API server cannot check.
type InvalidError struct{ text string }

func (e *InvalidError) Error() string { return e.text }

// IsInvalid reports whether only another spec, or other contents, can help.
func IsInvalid(err error) bool {
	var target *InvalidError
	return errors.As(err, &target) || IsSize(err) || environment.IsValue(err)
}

// Check says what is wrong with a spec, before any sandbox is made for it.
func Check(spec *sandboxv1alpha1.GuestSpec, plan Plan) error {
	for _, f := range spec.Files {
		if f.Content != nil && len(*f.Content) > maxContentBytes {
			return &InvalidError{fmt.Sprintf("files %s: content has %d bytes, %d are allowed; use contentFrom",
				f.Path, len(*f.Content), maxContentBytes)}
		}
	}
	for n, requirement := range plan.Packages {
		if err := wire.CheckRequirement(plan.Language, requirement); err != nil {
			return &InvalidError{fmt.Sprintf("packages[%d]: %v", n, err)}
		}
	}
	return nil
}
