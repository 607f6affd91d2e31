package wake_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sandbox-operator/sandbox-operator/controllers/internal/wake"
)

func TestNewRateLimiter(t *testing.T) {
	limiter := wake.NewRateLimiter()
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: "a"}}
	if got := limiter.When(request); got != 5*time.Millisecond {
		t.Errorf("after one error %s", got)
	}
	for range 100 {
		limiter.When(request)
	}
	if got := limiter.When(request); got != 10*time.Second {
		t.Errorf("after an outage of hours %s", got)
	}
	limiter.Forget(request)
	if got := limiter.When(request); got != 5*time.Millisecond {
		t.Errorf("after a success %s", got)
	}
}
