package main

import (
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	// linkName is the file, in the private folder, of the program that opens links.
	linkName    = "link"
	busVariable = "III_URL"
	// linkWait is how long the opening of a link may take: what the program allows
	// itself, and its start.
	linkWait = 10 * time.Second
)

// openLink has the supervisor open a link to the operator.
func openLink(home folder, request wire.LinkRequest) wire.Reply {
	address := os.Getenv(busVariable)
	if address == "" {
		return failed(wire.Failf(wire.NoBus, "the guest has no %s", busVariable))
	}
	if digest, err := digestOfFile(home.join(linkName)); err != nil || digest != request.ProgramDigest {
		return failed(wire.Failf(wire.NoProgram, "the program that opens links is not in the guest"))
	}
	program, err := wire.Marshal(wire.LinkProgram{
		CallsURL: channelURL(address, request.Calls, "read"), RepliesURL: channelURL(address, request.Replies, "write"),
	})
	if err != nil {
		return failed(wire.Failf(wire.BadRequest, "the ends of the link are malformed"))
	}
	connection, err := dial(home)
	if connection != nil {
		defer connection.Close()
	}
	if err != nil {
		return failed(wire.Failf(wire.Internal, "no supervisor"))
	}
	answer, err := exchange(connection, linkWait+quickAnswer, askLink, program)
	if err != nil || answer.kind != answerDone {
		return failed(wire.Failf(wire.Internal, "the link could not be opened"))
	}
	return wire.Reply{}
}

// channelURL is where an end of a channel is opened, by the way that the guest
// has to the bus (contracts/iii-bus.md §8). The credential in the query of that
// goes along.
func channelURL(bus string, end wire.LinkEnd, direction string) string {
	base, query, _ := strings.Cut(bus, "?")
	address := strings.TrimRight(base, "/") + "/ws/channels/" + end.ChannelID + "?key=" + end.AccessKey + "&dir=" + direction
	if query == "" {
		return address
	}
	return address + "&" + query
}

// askForLink is what the supervisor answers an askLink once it is known whether
// there is a link.
func (s *supervisor) askForLink(body []byte) byte {
	var program wire.LinkProgram
	if json.Unmarshal(body, &program) != nil {
		return answerCold
	}
	wanted := &link{home: s.home, program: body, opened: make(chan bool, 1), calls: map[uint32]chan os.Signal{}}
	s.mutex.Lock()
	s.wantedLinks = append(s.wantedLinks, wanted)
	s.mutex.Unlock()
	s.wake()
	if <-wanted.opened {
		return answerDone
	}
	return answerCold
}
