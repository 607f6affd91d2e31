package controllers

import (
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/runner/link"
)

// newLinks returns the links to the guests, nil for none.
func (op *Operator) newLinks(p parts, program guest.AgentProgram) *link.Set {
	if !p.CallLinks || !p.WarmGuests {
		return nil
	}
	return link.NewSet(link.Options{
		Opener: publish.NewChannels(op.bus), Provider: p.provider, Agent: program, Program: guest.LinkProgram,
		Permit: p.MayLead, Logger: logger("link"),
	})
}

// closeLinks ends the links, once no call is under way.
func (op *Operator) closeLinks() {
	if op.links != nil {
		op.links.Close()
	}
}
