package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of what a command may write beside its messages.
const (
	maxLogLine   = 4 << 10 // bytes of one line that is kept; the rest is dropped
	linesASecond = 50
	linesAtOnce  = 200
	lastLines    = 3   // that tell why it ended
	lastLine     = 300 // bytes of each
)

// passedOn are the variables of the publisher that a command gets.
var passedOn = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TMP", "TEMP", "TERM",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
	"PROGRAMDATA", "PROGRAMFILES",
}

// process is the channel of a command: a message a line on its standard input
// and output.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan []byte
	grace time.Duration
	log   *slog.Logger
	link  *link
	max   int64
	clean scrubber
	said  []string // last lines of its standard error, once that has ended

	gone    chan struct{} // closed when the process and its pipes are finished
	writer  chan struct{} // closed when the writing goroutine is
	stopped sync.Once
	quit    chan struct{} // closed by close
}

// startProcess starts the command as the channel of l, and reads it into l until
// it ends; l fails then.
func startProcess(o *Options, l *link, clean scrubber) (*process, error) {
	log := o.Log
	cmd := exec.Command(o.Command[0], o.Command[1:]...) //nolint:gosec,noctx // it ends by Close, in steps; running the operator's command is the purpose
	cmd.Dir = o.Dir
	cmd.Env = environment(o.Env)
	ownGroup(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		_ = errors.Join(outR.Close(), outW.Close())
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = outW, errW
	err = cmd.Start()
	_ = errors.Join(outW.Close(), errW.Close()) // the process has its own
	if err != nil {
		_ = errors.Join(outR.Close(), errR.Close(), stdin.Close())
		return nil, &startError{err}
	}
	p := &process{
		cmd: cmd, stdin: stdin, lines: make(chan []byte, maxEvents), grace: o.grace, log: log, link: l, max: o.MaxResult, clean: clean,
		gone: make(chan struct{}), writer: make(chan struct{}), quit: make(chan struct{}),
	}
	l.ch = p
	log.Info("upstream started", "pid", cmd.Process.Pid)
	var readers sync.WaitGroup
	readers.Go(func() { p.readMessages(outR) })
	readers.Go(func() { p.said = keepLines(errR, o.Stderr, log, clean) })
	go p.write()
	go p.wait(&readers, outR, errR)
	return p, nil
}

// startError is a command that cannot run at all; a later try would not either.
type startError struct{ err error }

func (e *startError) Error() string { return "start the command: " + e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// endedError is a command that has ended by itself.
type endedError struct {
	why  string
	said []string // the last that it wrote to its standard error, without secrets
}

func (e *endedError) Error() string {
	if len(e.said) == 0 {
		return e.why
	}
	return e.why + ": " + strings.Join(e.said, " / ")
}

// environment gives the variables of a command: never the publisher's secrets.
func environment(extra map[string]string) []string {
	env := make([]string, 0, len(passedOn)+len(extra))
	for _, name := range passedOn {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	for name, v := range extra {
		env = append(env, name+"="+v)
	}
	slices.Sort(env[len(env)-len(extra):])
	return env
}

// wait sees the process end. What it wrote last is read; then the rest of its
// group, which might hold the pipes open, is killed.
func (p *process) wait(readers *sync.WaitGroup, pipes ...*os.File) {
	err := p.cmd.Wait()
	read := make(chan struct{})
	go func() {
		readers.Wait()
		close(read)
	}()
	select {
	case <-read:
	case <-time.After(500 * time.Millisecond):
	}
	killGroup(p.cmd)
	for _, f := range pipes {
		_ = f.Close() // ends a reader that is still there
	}
	<-read
	why := &endedError{why: "the command ended", said: p.said}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		why.why = "the command ended with " + exit.String()
	}
	select {
	case <-p.quit:
		p.log.Info("upstream stopped", "reason", why.why)
	default:
		p.log.Warn("upstream ended", "reason", why.why)
	}
	p.link.fail(why)
	p.stop()
	<-p.writer
	close(p.gone)
}

func (p *process) perCall() bool { return false }

func (p *process) stop() { p.stopped.Do(func() { close(p.quit) }) }

// close stops the process: its input ends, then SIGTERM, then SIGKILL.
func (p *process) close() {
	p.stop()
	for _, step := range []func(*exec.Cmd){func(*exec.Cmd) {}, terminateGroup, killGroup} {
		step(p.cmd)
		select {
		case <-p.gone:
			return
		case <-time.After(p.grace):
		}
	}
	<-p.gone
}

func (p *process) send(ctx context.Context, msg *message, c *call) error {
	select {
	case p.lines <- append(encode(msg), '\n'):
		p.link.markSent(c)
		return nil
	case <-p.quit:
		return errors.New("the command has been stopped")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write is the only writer of the command's input, so that a command that does
// not read holds up nobody but itself.
func (p *process) write() {
	defer close(p.writer)
	defer p.stdin.Close() // cmd.Wait closes it too; either ends a write that hangs
	go func() {
		<-p.quit
		_ = p.stdin.Close()
	}()
	for {
		select {
		case line := <-p.lines:
			if _, err := p.stdin.Write(line); err != nil {
				p.log.Debug("the upstream takes no input", "error", err)
				return
			}
		case <-p.quit:
			return
		}
	}
}

// readMessages reads the command's output. A line that is no message is noise,
// which many servers print as they start.
func (p *process) readMessages(r io.Reader) {
	in := bufio.NewReaderSize(r, 64<<10)
	noise := rate.NewLimiter(1, 5)
	for {
		line, tail, err := readLine(in, p.max)
		switch {
		case tail != nil:
			p.oversize(line, tail)
		case len(bytes.TrimSpace(line)) > 0:
			batch, fault := parseMessages(line)
			if fault != nil && noise.Allow() {
				start := string(p.clean.all(bytes.TrimSpace(line[:min(len(line), 200)])))
				p.log.Warn("upstream wrote a line that is no message", "line", start, "error", fault)
				p.link.noise(start)
			}
			for _, m := range batch {
				p.link.receive(m, nil)
			}
		}
		if err != nil {
			return
		}
	}
}

// readLine reads one line of at most max bytes. Of a longer one it gives the
// first max bytes, reads on to its end, and gives its last bytes as tail.
func readLine(r *bufio.Reader, max int64) (line, tail []byte, err error) {
	const keep = 256
	for {
		part, err := r.ReadSlice('\n')
		if room := max - int64(len(line)); tail == nil && int64(len(part)) <= room {
			line = append(line, part...)
		} else if tail == nil {
			line = append(line, part[:room]...)
			tail = append([]byte{}, part[max0(len(part)-keep):]...)
		} else {
			tail = append(tail, part[max0(len(part)-keep):]...)
			tail = append(tail[:0], tail[max0(len(tail)-keep):]...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tail, err
		}
	}
}

func max0(n int) int { return max(n, 0) }

// The id of a message too large to be read stands where encoders put it: first,
// or last.
var (
	idFirst = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,`)
	idLast  = regexp.MustCompile(`"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// oversize ends the call whose answer is too large. If the answer does not say
// which one it is, and there are several, the call's own time limit has to.
func (p *process) oversize(head, tail []byte) {
	p.log.Warn("upstream sent a message that is too large", "limit", p.max)
	id := idFirst.FindSubmatch(head[:min(len(head), 256)])
	if id == nil {
		id = idLast.FindSubmatch(tail)
	}
	var c *call
	if id != nil {
		p.link.mu.Lock()
		c = p.link.calls[string(id[1])]
		p.link.mu.Unlock()
	} else {
		c = p.link.owner(&message{}, nil)
	}
	if c != nil {
		p.link.finish(c, nil, tooLarge(p.max))
	}
}

// keepLines logs what the command writes to its standard error, and copies it
// to w. Lines are cut, and a flood is thinned, so that it fills no disk. It
// gives the last lines.
func keepLines(r io.Reader, w io.Writer, log *slog.Logger, clean scrubber) (last []string) {
	in := bufio.NewReaderSize(r, 64<<10)
	flow := rate.NewLimiter(linesASecond, linesAtOnce)
	dropped := 0
	for {
		line, tail, err := readLine(in, maxLogLine)
		text := strings.TrimRight(string(clean.all(line)), "\r\n")
		if tail != nil {
			text += " …"
		}
		switch {
		case text == "":
		case !flow.Allow():
			dropped++
		default:
			if dropped > 0 {
				log.Warn("upstream wrote more than is kept", "dropped_lines", dropped)
				dropped = 0
			}
			log.Info("upstream stderr", "line", text)
			if w != nil {
				_, _ = fmt.Fprintln(w, text) // the copy is a convenience
			}
		}
		if text != "" {
			last = append(last[max0(len(last)-lastLines+1):], text[:min(len(text), lastLine)])
		}
		if err != nil {
			if dropped > 0 {
				log.Warn("upstream wrote more than is kept", "dropped_lines", dropped)
			}
			return last
		}
	}
}
