package publishercmd

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// servePrivate answers on the private listener until stop is called:
//
//	/metrics  for Prometheus
//	/healthz  200 while the program serves documents
//	/readyz   200 while everything answers, else 503 and why, line by line
func servePrivate(ctx context.Context, addr string, s *site) (stop func(), bound string, err error) {
	if strings.HasPrefix(addr, ":") {
		addr = "127.0.0.1" + addr
	}
	listener, err := listen(ctx, "--metrics", addr)
	if err != nil {
		return nil, "", err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { tell(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := s.notReady(); why != "" {
			tell(w, http.StatusServiceUnavailable, why)
			return
		}
		tell(w, http.StatusOK, "ready\n")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Close
	}()
	return func() {
		_ = server.Close()
		<-done
	}, listener.Addr().String(), nil
}

func tell(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // who asked is gone
}
