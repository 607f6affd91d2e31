package fleet

import (
	"maps"
	"slices"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// Instance is a sandbox of this operator.
type Instance struct {
	Info   sandbox.Info
	Marker sandbox.Marker
}

// Snapshot is one reading of the back end's list. It is shared: nobody changes
// it.
type Snapshot struct {
	// Time is when the list was asked for, zero before the first success.
	Time time.Time
	// Available says that the back end can be reached: the latest reading
	// succeeded, or is the first that failed for a reason that may have passed.
	// After a failure the rest is of the last reading that succeeded.
	Available bool
	// Err is why the latest reading failed.
	Err error
	// All are the sandboxes of the list, those of strangers included.
	All []sandbox.Info
	// Ours are the running sandboxes with a marker of this operator, by the UID of
	// their object and in the order of their ordinals.
	Ours map[string][]Instance
}

// Find returns a sandbox by its id, strangers' and stopping ones included.
func (s Snapshot) Find(id sandbox.ID) (sandbox.Info, bool) {
	i := slices.IndexFunc(s.All, func(info sandbox.Info) bool { return info.ID == id })
	if i < 0 {
		return sandbox.Info{}, false
	}
	return s.All[i], true
}

// Change is what differs between two readings.
type Change struct {
	// Objects are the UIDs of objects of which a sandbox appeared or vanished,
	// sorted.
	Objects []string
	// AvailabilityChanged says that the back end became reachable or unreachable;
	// Available which of the two.
	AvailabilityChanged, Available bool
}

func (c Change) empty() bool { return len(c.Objects) == 0 && !c.AvailabilityChanged }

// group picks the sandboxes of one operator that are not being removed.
func group(infos []sandbox.Info, operatorID string) map[string][]Instance {
	ours := map[string][]Instance{}
	for _, info := range infos {
		marker, err := sandbox.ParseMarker(info.Name)
		if err != nil || marker.Operator != operatorID || info.Stopped {
			continue
		}
		ours[marker.Object] = append(ours[marker.Object], Instance{Info: info, Marker: marker})
	}
	for _, instances := range ours {
		slices.SortFunc(instances, func(a, b Instance) int { return a.Marker.Ordinal - b.Marker.Ordinal })
	}
	return ours
}

// diff compares two successive snapshots.
func diff(before, after Snapshot) Change {
	change := Change{
		Available:           after.Available,
		AvailabilityChanged: before.Available != after.Available,
	}
	owners, now := ownersByID(before.Ours), ownersByID(after.Ours)
	touched := map[string]bool{}
	for id, object := range owners {
		if _, stays := now[id]; !stays {
			touched[object] = true
		}
	}
	for id, object := range now {
		if _, was := owners[id]; !was {
			touched[object] = true
		}
	}
	change.Objects = slices.Sorted(maps.Keys(touched))
	return change
}

func ownersByID(ours map[string][]Instance) map[sandbox.ID]string {
	owners := map[sandbox.ID]string{}
	for object, instances := range ours {
		for _, instance := range instances {
			owners[instance.Info.ID] = object
		}
	}
	return owners
}
