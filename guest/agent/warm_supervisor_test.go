package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const keptNode = `export const handler = () => process.ppid;`

// A call that finds no supervisor brings one about, and its processes go with it.
func TestSupervisor_comesWithACall(t *testing.T) {
	guest := newGuest(t)
	t.Cleanup(guest.endSupervisor)
	guest.way = ways[1]
	request := callRequest(wire.Node, guest.mustPlant(wire.Node, keptNode), "0")
	if reply := guest.exec(wire.CommandCall, guest.way.of(request)); reply.Error != nil {
		t.Fatal(reply.Error)
	}
	guest.invoke(request)
	info, err := os.Stat(filepath.Join(guest.home, "supervisor", socketName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v %v", info.Mode(), err)
	}
}

func TestSupervisor_unplantEndsProcesses(t *testing.T) {
	guest := newGuestOf(t, ways[1])
	for language, source := range emptyHandlers {
		digest := guest.mustPlant(language, source)
		guest.invoke(callRequest(language, digest, "0"))
		eventually(t, "a process is ready", func() bool { return guest.keepers() > 0 })
		if reply := guest.exec(wire.CommandUnplant, wire.UnplantRequest{SourceDigest: digest}); reply.Error != nil {
			t.Fatal(reply.Error)
		}
		eventually(t, "no process is left", func() bool { return guest.keepers() == 0 })
	}
}

func (g *guest) keepers() (count int) {
	for _, each := range g.processes() {
		if strings.HasSuffix(strings.TrimSpace(each), keeperFlag) {
			count++
		}
	}
	return count
}

// There is one supervisor however often the guest is prepared; one whose file was
// written anew, or of another version, makes way.
func TestSupervisor_isOne(t *testing.T) {
	guest := newGuestOf(t, ways[1])
	first := guest.supervisor()
	for range 3 {
		guest.exec(wire.CommandInit, wire.InitRequest{Warm: true})
	}
	request := callRequest(wire.Node, guest.mustPlant(wire.Node, keptNode), "0")
	guest.invoke(request)
	if again := guest.supervisor(); again != first {
		t.Errorf("want supervisor %d, got %d", first, again)
	}
	content, err := os.ReadFile(guest.home + "/agent")
	if err != nil {
		t.Fatal(err)
	}
	if err := writeAtomically(guest.home+"/agent", content, 0o755); err != nil {
		t.Fatal(err)
	}
	guest.exec(wire.CommandInit, wire.InitRequest{Warm: true})
	eventually(t, "another supervisor has taken over", func() bool {
		pid := guest.supervisor()
		return pid != 0 && pid != first
	})
	guest.invoke(request)

	next := *guest
	next.home = filepath.Join(filepath.Dir(guest.home), "next")
	if err := writeAtomically(next.home+"/agent", content, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(next.endSupervisor)
	next.exec(wire.CommandInit, wire.InitRequest{Warm: true})
	eventually(t, "the old version's processes are gone", func() bool { return len(guest.processes()) == 0 })
	next.awaitSupervisor()
}

// Without the folder nothing stays.
func TestSupervisor_endsWithItsFolder(t *testing.T) {
	guest := newGuestOf(t, ways[1])
	guest.invoke(callRequest(wire.Python, guest.mustPlant(wire.Python, emptyHandlers[wire.Python]), "0"))
	if err := os.RemoveAll(guest.home); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the guest's processes are gone", func() bool { return len(guest.processes()) == 0 })
}
