package fake_test

import (
	"testing"

	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
	"github.com/sandbox-operator/sandbox-operator/sandbox/providertest"
)

func TestProvider_contract(t *testing.T) { providertest.Run(t, fake.New()) }
