package main

import (
	"strings"
	"testing"
)

const log = `{"Action":"output","Package":"a/b","Test":"TestX","Output":"=== RUN   TestX\n"}
{"Action":"output","Package":"a/b","Test":"TestX","Output":"    x_test.go:7: no Chromium here\n"}
{"Action":"output","Package":"a/b","Test":"TestX","Output":"--- SKIP: TestX (0.00s)\n"}
{"Action":"skip","Package":"a/b","Test":"TestX"}
{"Action":"output","Package":"a/b","Test":"TestY","Output":"noise of a test that passed\n"}
{"Action":"pass","Package":"a/b","Test":"TestY"}
{"Action":"output","Package":"a/b","Test":"TestZ","Output":"    z_test.go:9: wrong\n"}
{"Action":"fail","Package":"a/b","Test":"TestZ"}
{"Action":"output","Package":"a/b","Output":"FAIL\ta/b\t0.1s\n"}
{"Action":"fail","Package":"a/b"}
go: something of the go command
`

func TestReport(t *testing.T) {
	var out strings.Builder
	if err := report(strings.NewReader(log), &out); err != nil {
		t.Fatal(err)
	}
	const want = `    z_test.go:9: wrong
FAIL	a/b	0.1s
go: something of the go command
skipped: a/b TestX: no Chromium here
1 passed, 1 failed, 1 skipped
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}
