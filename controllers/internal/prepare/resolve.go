// Package prepare makes a new sandbox fit for its spec before any program runs in
// it: files, then packages, then setup commands.
package prepare

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/environment"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// Plan is what a sandbox needs, with every reference resolved.
type Plan struct {
	Language        wire.Language
	Files           []wire.File
	Packages, Setup []string
	// Secrets are values that must not show in an Error.
	Secrets []string
}

// IsEmpty says that there is nothing to do.
func (p *Plan) IsEmpty() bool {
	return len(p.Files) == 0 && len(p.Packages) == 0 && len(p.Setup) == 0
}

// Resolve reads what the files of a spec refer to. A reference that leads nowhere
// is an environment.NotFoundError, files that are too large a *SizeError. The
// reader should be uncached: Secrets and ConfigMaps of users are in no informer.
func Resolve(
	ctx context.Context, reader client.Reader, namespace string, language sandboxv1alpha1.Language, spec *sandboxv1alpha1.GuestSpec,
) (Plan, error) {
	files, secrets, err := Files(ctx, reader, namespace, spec.Files)
	if err != nil {
		return Plan{}, err
	}
	return Plan{
		Language: Language(language), Files: files, Secrets: secrets,
		Packages: slices.Clone(spec.Packages), Setup: slices.Clone(spec.Setup),
	}, nil
}

// SizeError says that the files of a spec are too large together, which the API
// server cannot know of files that Secrets and ConfigMaps hold.
type SizeError struct{ Size int }

func (e *SizeError) Error() string {
	return fmt.Sprintf("files: they have %d bytes together; %d are allowed", e.Size, wire.MaxFileBytes)
}

// IsSize reports whether err says that files are too large.
func IsSize(err error) bool {
	var target *SizeError
	return errors.As(err, &target)
}

// Files reads the contents of files. The secrets are the contents that come from
// Secrets.
func Files(
	ctx context.Context, reader client.Reader, namespace string, specs []sandboxv1alpha1.File,
) (files []wire.File, secrets []string, err error) {
	size := 0
	for _, spec := range specs {
		content, err := fileContent(ctx, reader, namespace, spec)
		if err != nil {
			return nil, nil, fmt.Errorf("files %s: %w", spec.Path, err)
		}
		if size += len(content); size > wire.MaxFileBytes {
			return nil, nil, &SizeError{Size: size}
		}
		if spec.ContentFrom != nil && spec.ContentFrom.SecretKeyRef != nil {
			secrets = append(secrets, content)
		}
		files = append(files, wire.File{Path: spec.Path, Content: []byte(content), Mode: spec.Mode})
	}
	return files, secrets, nil
}

func fileContent(ctx context.Context, reader client.Reader, namespace string, spec sandboxv1alpha1.File) (string, error) {
	if spec.ContentFrom != nil {
		return environment.Key(ctx, reader, namespace, spec.ContentFrom)
	}
	if spec.Content == nil {
		return "", nil
	}
	return *spec.Content, nil
}

// Language is the agent's word for a language.
func Language(l sandboxv1alpha1.Language) wire.Language {
	if l == sandboxv1alpha1.LanguagePython {
		return wire.Python
	}
	return wire.Node
}
