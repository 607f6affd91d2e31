package qemu

import (
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// firstUser is where the user numbers of QEMU processes begin: above those of
	// people, services and containers.
	firstUser    = 0x60000000
	usersAtATime = 1 << 12
	userBlocks   = 1 << 15
)

// users hands out user numbers, so that no two machines of a daemon share one, and
// two daemons hardly.
type users struct {
	first int
	mu    sync.Mutex
	used  map[int]bool
}

func newUsers() *users {
	return &users{first: firstUser + rand.IntN(userBlocks)*usersAtATime, used: map[int]bool{}}
}

func (u *users) take() (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for slot := range usersAtATime {
		if !u.used[slot] {
			u.used[slot] = true
			return slot, nil
		}
	}
	return 0, errors.New("all user numbers for machines are taken")
}

func (u *users) give(slot int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.used, slot)
}

// credential is a user of its own, in the device's group where that is needed.
func (u *users) credential(slot int, a accelerator) *syscall.Credential {
	number := uint32(u.first + slot)
	c := &syscall.Credential{Uid: number, Gid: number}
	var status unix.Stat_t
	if a == hardware && unix.Stat(kvmDevice, &status) == nil {
		c.Groups = []uint32{status.Gid}
	}
	return c
}
