package sandboxruntime

import (
	"slices"
	"strconv"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// plan is what to do about the instances of a runtime.
type plan struct {
	// boot names the instances to make.
	boot []string
	// retire names the instances to drain and stop.
	retire []string
	// short is true while fewer instances of the present template are ready than
	// are wanted.
	short bool
}

// decide compares the instances with what is wanted. Instances from an older
// template stay until enough new ones are ready, so that a change of the
// template costs no call.
func decide(instances []sandboxv1alpha1.InstanceStatus, want int, templateDigest string) plan {
	var p plan
	var current []sandboxv1alpha1.InstanceStatus
	var outdated []string
	ready := 0
	for _, i := range instances {
		switch {
		case i.State == sandboxv1alpha1.InstanceStopping:
			// Already on its way out.
		case i.TemplateDigest != templateDigest:
			outdated = append(outdated, i.Name)
		default:
			current = append(current, i)
			if i.State == sandboxv1alpha1.InstanceReady {
				ready++
			}
		}
	}
	for n := len(current); n < want; n++ {
		p.boot = append(p.boot, freeName(instances, p.boot))
	}
	if len(current) > want {
		slices.SortFunc(current, byWorth)
		for _, i := range current[want:] {
			p.retire = append(p.retire, i.Name)
		}
	}
	if ready >= want {
		p.retire = append(p.retire, outdated...)
	}
	p.short = ready < want
	return p
}

// byWorth puts instances that take calls before those that do not yet, and then
// the oldest names first.
func byWorth(a, b sandboxv1alpha1.InstanceStatus) int {
	if a.State != b.State {
		if a.State == sandboxv1alpha1.InstanceReady {
			return -1
		}
		return 1
	}
	return byOrdinal(a.Name, b.Name)
}

func byOrdinal(a, b string) int { return ordinal(a) - ordinal(b) }

// ordinal is the number that an instance is named by.
func ordinal(name string) int {
	n, err := strconv.Atoi(name)
	if err != nil {
		return 0
	}
	return n
}

// freeName returns the smallest number that names no instance.
func freeName(instances []sandboxv1alpha1.InstanceStatus, taken []string) string {
	for n := 0; ; n++ {
		name := strconv.Itoa(n)
		used := slices.Contains(taken, name) || slices.ContainsFunc(instances, func(i sandboxv1alpha1.InstanceStatus) bool {
			return i.Name == name
		})
		if !used {
			return name
		}
	}
}
