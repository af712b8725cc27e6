package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// roleVar names the part that a process plays when the bench starts itself
// again, so that one side's CPU time and memory are its own.
const roleVar = "OPENBOT_BENCH_ROLE"

const (
	roleCards = "cards" // serves a card, ours and bare
	roleSites = "sites" // is the Internet of the crawl
	roleCrawl = "crawl" // crawls it as the product does
	rolePlain = "plain" // crawls it with a loop

	roleCallOurs    = "call ours"    // serves a tool through the publisher
	roleCallMixed   = "call mixed"   // the same tool, added by the SDK
	roleCallBare    = "call bare"    // answers as that tool does
	roleCallSDK     = "call sdk"     // serves it on the SDK alone
	roleCallGateway = "call gateway" // puts a gateway before the first
)

// play is main of a child. What it tells goes to standard output as one line
// of JSON; a server then runs until its standard input ends.
func play(role string) error {
	var err error
	switch role {
	case roleCards:
		err = serveCards()
	case roleSites:
		err = serveSites()
	case roleCallOurs, roleCallMixed, roleCallBare, roleCallSDK, roleCallGateway:
		err = serveCalls(role)
	case roleCrawl, rolePlain:
		var t trip
		if err := json.NewDecoder(os.Stdin).Decode(&t); err != nil {
			return fmt.Errorf("read the trip: %w", err)
		}
		return t.make(context.Background(), role)
	default:
		return fmt.Errorf("no such role: %s", role)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func tell(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// child is a process that was started.
type child struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// start runs this program again in a role; input is sent as JSON when it is
// not nil.
func start(ctx context.Context, role string, input any) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self) // #nosec G204 -- this program
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	return launch(cmd, input)
}

func launch(cmd *exec.Cmd, input any) (*child, error) {
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd, in, bufio.NewReader(out)}
	if input != nil {
		if err := json.NewEncoder(in).Encode(input); err != nil {
			return nil, errors.Join(err, c.stop())
		}
	}
	return c, nil
}

// read takes what the child tells.
func (c *child) read(v any) error {
	text, err := c.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read from %s: %w", c.cmd.Path, err)
	}
	return json.Unmarshal(text, v)
}

// stop ends the child's input and waits for its end.
func (c *child) stop() error {
	_ = c.in.Close()
	return c.cmd.Wait()
}
