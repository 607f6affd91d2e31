package controllers

import "github.com/sandbox-operator/sandbox-operator/controllers/internal/slim"

// SlimCache is the transform of the manager's cache, which must have it: what it
// leaves out is read past the cache when it is needed.
func SlimCache(obj any) (any, error) { return slim.Transform(obj) }
