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

// maxInstances is the most that a status can list.
const maxInstances = 128

// decide compares the instances with what is wanted. Instances from an older
// template stay until enough new ones are ready, so that a change of the
// template costs no call; but no more of them than are wanted, so that one
// change after another does not pile them up.
func decide(instances []sandboxv1alpha1.InstanceStatus, want int, templateDigest string) plan {
	var p plan
	var current, outdated []sandboxv1alpha1.InstanceStatus
	ready := 0
	for _, i := range instances {
		switch {
		case i.State == sandboxv1alpha1.InstanceStopping:
			// Already on its way out.
		case i.TemplateDigest != templateDigest:
			outdated = append(outdated, i)
		default:
			current = append(current, i)
			if i.State == sandboxv1alpha1.InstanceReady {
				ready++
			}
		}
	}
	for n := len(current); n < want && len(instances)+len(p.boot) < maxInstances; n++ {
		p.boot = append(p.boot, freeName(instances, p.boot))
	}
	p.retire = beyond(current, want)
	if ready >= want {
		p.retire = append(p.retire, beyond(outdated, 0)...)
	} else {
		p.retire = append(p.retire, beyond(outdated, want)...)
	}
	p.short = ready < want
	return p
}

// beyond names the instances that are left over when so many of the best stay.
func beyond(instances []sandboxv1alpha1.InstanceStatus, stay int) []string {
	var names []string
	slices.SortStableFunc(instances, byWorth)
	for _, i := range instances[min(stay, len(instances)):] {
		names = append(names, i.Name)
	}
	return names
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
