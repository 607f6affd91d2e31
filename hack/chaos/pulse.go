package main

import (
	"strings"
	"sync"
	"time"
)

// pulse shows, second by second, how calls fared.
type pulse struct {
	mutex sync.Mutex
	began time.Time
	// answered and failed count the calls that ended in each second.
	answered, failed []int
}

func (p *pulse) beat(ok bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	second := int(time.Since(p.began) / time.Second)
	for len(p.answered) <= second {
		p.answered, p.failed = append(p.answered, 0), append(p.failed, 0)
	}
	if ok {
		p.answered[second]++
	} else {
		p.failed[second]++
	}
}

// pulseWidth is how many seconds one line shows.
const pulseWidth = 60

// String has one sign a second: # all calls were answered, + some, - none; a blank
// where none ended.
func (p *pulse) String() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var line strings.Builder
	for i := range p.answered {
		if i > 0 && i%pulseWidth == 0 {
			line.WriteString("\n         ")
		}
		line.WriteByte(sign(p.answered[i], p.failed[i]))
	}
	return line.String()
}

func sign(answered, failed int) byte {
	switch {
	case answered+failed == 0:
		return ' '
	case failed == 0:
		return '#'
	case answered > 0:
		return '+'
	default:
		return '-'
	}
}
