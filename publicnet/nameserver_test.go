package publicnet_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer gives the Dial of a net.Resolver that leads to a name server in
// memory. It knows apps.example.com. and reports every name it is asked for.
func nameServer(t *testing.T, addr netip.Addr, questions chan<- string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			for {
				// A connection that is no packet connection carries length and
				// message, as over TCP.
				var size [2]byte
				if _, err := io.ReadFull(server, size[:]); err != nil {
					return
				}
				msg := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(server, msg); err != nil {
					return
				}
				var query dnsmessage.Message
				if err := query.Unpack(msg); err != nil || len(query.Questions) != 1 {
					t.Errorf("query: %v", err)
					return
				}
				q := query.Questions[0]
				select {
				case questions <- q.Name.String():
				default:
				}
				answer := dnsmessage.Message{
					Header:    dnsmessage.Header{ID: query.ID, Response: true, RecursionAvailable: true},
					Questions: query.Questions,
				}
				switch {
				case q.Name.String() != "apps.example.com.":
					answer.RCode = dnsmessage.RCodeNameError
				case q.Type == dnsmessage.TypeA:
					answer.Answers = []dnsmessage.Resource{{
						Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
						Body:   &dnsmessage.AResource{A: addr.As4()},
					}}
				}
				packed, err := answer.Pack()
				if err != nil {
					t.Errorf("answer: %v", err)
					return
				}
				server.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...))
			}
		}()
		return client, nil
	}
}
