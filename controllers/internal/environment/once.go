package environment

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"
)

type once struct {
	client.Reader
	secrets    map[client.ObjectKey]*answer[corev1.Secret]
	configMaps map[client.ObjectKey]*answer[corev1.ConfigMap]
}

type answer[T any] struct {
	object T
	err    error
}

// Once returns a reader for one resolution: it reads every Secret and ConfigMap at
// most once, so that a spec which takes many keys of one object sees one state of
// it. It is for one goroutine, and nobody changes what it returns.
func Once(reader client.Reader) client.Reader {
	return &once{
		Reader:     reader,
		secrets:    map[client.ObjectKey]*answer[corev1.Secret]{},
		configMaps: map[client.ObjectKey]*answer[corev1.ConfigMap]{},
	}
}

// Get implements client.Reader.
func (o *once) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	switch target := obj.(type) {
	case *corev1.Secret:
		known, ok := o.secrets[key]
		if !ok {
			known = &answer[corev1.Secret]{}
			known.err = o.Reader.Get(ctx, key, &known.object, opts...)
			o.secrets[key] = known
		}
		*target = known.object
		return known.err
	case *corev1.ConfigMap:
		known, ok := o.configMaps[key]
		if !ok {
			known = &answer[corev1.ConfigMap]{}
			known.err = o.Reader.Get(ctx, key, &known.object, opts...)
			o.configMaps[key] = known
		}
		*target = known.object
		return known.err
	default:
		return o.Reader.Get(ctx, key, obj, opts...)
	}
}
