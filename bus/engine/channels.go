package engine

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Bounds of channels (contracts/iii-bus.md §8, §12).
const (
	defaultChannelItems = 64
	maxChannelItems     = 1024
	unpairedChannelTTL  = 5 * time.Minute
	channelSweep        = time.Minute
)

// channel connects one writer with one reader. It belongs to no worker.
type channel struct {
	id  string
	key string
	// items is closed by the writer's end, after its last frame.
	items chan item
	// readerGone ends the writer; aborted ends both.
	readerGone chan struct{}
	aborted    chan struct{}
	created    time.Time

	// Guarded by channels.mu.
	writerTaken bool
	readerTaken bool
	writerEnded bool
	readerEnded bool
	// taken is closed when a writer appears.
	taken chan struct{}
}

// channels are the open ones, by id.
type channels struct {
	mu   sync.Mutex
	open map[string]*channel
}

func newChannels() *channels { return &channels{open: map[string]*channel{}} }

// create opens a channel whose buffer holds that many frames; the bounds apply.
func (s *channels) create(items int) *channel {
	if items <= 0 {
		items = defaultChannelItems
	}
	c := &channel{
		id: uuid.NewString(), key: rand.Text(), items: make(chan item, min(items, maxChannelItems)),
		readerGone: make(chan struct{}), aborted: make(chan struct{}), taken: make(chan struct{}), created: time.Now(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c.id] = c
	return c
}

// find returns a channel to whoever knows its key, nil to others.
func (s *channels) find(id, key string) *channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.open[id]; c != nil && sameSecret(c.key, key) {
		return c
	}
	return nil
}

// take claims one end; there is exactly one taker of each.
func (s *channels) take(c *channel, direction string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := &c.readerTaken
	if direction == protocol.DirectionWrite {
		end = &c.writerTaken
	}
	if *end {
		return false
	}
	*end = true
	if direction == protocol.DirectionWrite {
		close(c.taken)
	}
	return true
}

// endWriter says that no more frames come; what is buffered still reaches the
// reader. Only the taker of the end may call it, once.
func (s *channels) endWriter(c *channel) {
	close(c.items)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.writerEnded = true
	s.removeEnded(c)
}

// endReader says that nobody reads any more. Only the taker of the end may
// call it, once.
func (s *channels) endReader(c *channel) {
	close(c.readerGone)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.readerEnded = true
	s.removeEnded(c)
}

func (s *channels) removeEnded(c *channel) {
	if c.writerEnded && c.readerEnded {
		delete(s.open, c.id)
	}
}

// remove aborts a channel whatever its state.
func (s *channels) remove(c *channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(c)
}

func (s *channels) removeLocked(c *channel) {
	delete(s.open, c.id)
	select {
	case <-c.aborted:
	default:
		close(c.aborted)
	}
}

// sweep aborts channels that found no pair for too long.
func (s *channels) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		paired := c.writerTaken && c.readerTaken
		if !paired && now.Sub(c.created) > unpairedChannelTTL {
			s.removeLocked(c)
		}
	}
}

func (e *Engine) sweepChannels() {
	ticker := time.NewTicker(channelSweep)
	defer ticker.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case now := <-ticker.C:
			e.channels.sweep(now)
		}
	}
}

// put hands a frame on, waiting while the buffer is full. False when nobody
// will read it.
func (c *channel) put(ctx context.Context, i item) bool {
	select {
	case <-c.readerGone:
		return false
	default:
	}
	select {
	case c.items <- i:
		return true
	case <-c.readerGone:
	case <-c.aborted:
	case <-ctx.Done():
	}
	return false
}

func (c *channel) ref(direction string) protocol.ChannelRef {
	return protocol.ChannelRef{ChannelID: c.id, AccessKey: c.key, Direction: direction}
}

// createChannel is engine::channels::create.
func (e *Engine) createChannel(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	request, failed := decode[struct {
		BufferSize int `json:"buffer_size"`
	}](k.data)
	if failed != nil {
		return nil, failed
	}
	c := e.channels.create(request.BufferSize)
	return protocol.ChannelPair{Writer: c.ref(protocol.DirectionWrite), Reader: c.ref(protocol.DirectionRead)}, nil
}
