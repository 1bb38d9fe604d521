package telemetry

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"plimsoll/test/process"
)

// A page behind TLS with an authority of its own and a key is read with them; the
// target's key goes to no other server, and no key is kept on disk.
func TestKeys(t *testing.T) {
	t.Parallel()
	const pageKey, targetKey = "page-key-5f1c", "target-key-77ab"
	_, twin := process.Twin(t, "--step", "20ms", "--replicas", "1")
	page := get(t, twin+"/metrics")
	var mu sync.Mutex
	var keys []string // that a page without need of one was sent
	locked := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+pageKey {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", plainText)
		fmt.Fprint(w, page)
	}))
	locked.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail are meant to
	locked.StartTLS()
	t.Cleanup(locked.Close)
	open := exporter(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		keys = append(keys, r.Header.Values("Authorization")...)
		mu.Unlock()
		w.Header().Set("Content-Type", plainText)
		fmt.Fprint(w, page)
	})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: locked.Certificate().Raw}))
	write(t, filepath.Join(dir, "s.yaml"), fmt.Appendf(nil, `target:
  url: %s
  api-key-env: TARGET_KEY
users: {prompt-tokens: 20, output-tokens: 10}
load: {users: 2, duration: 2s, warmup: 0s}
data:
  telemetry-interval: 250ms
  telemetry:
    - {url: "%s/metrics", ca: ca.pem, api-key-env: PAGE_KEY}
    - {url: "%[2]s/other", ca: ca.pem}
    - {url: "%[2]s/third", api-key-env: PAGE_KEY}
    - %s
`, twin, locked.URL, open))
	p := process.StartEnv(t, []string{"PAGE_KEY=" + pageKey, "TARGET_KEY=" + targetKey}, dir, "run", "s.yaml", "--out", "runs")
	f := finished{Result: p.Wait(limit)}
	if f.Code != 0 && f.Code != 4 {
		t.Fatalf("exit %d\n%s\n%s", f.Code, f.Stderr, f.Stdout)
	}
	f.read(t, filepath.Join(dir, "runs"))
	for url, state := range map[string]string{locked.URL + "/metrics": "ok", locked.URL + "/other": "auth_failed", locked.URL + "/third": "error", open: "ok"} {
		if s := f.info.Source(t, url); s.State != state {
			t.Errorf("%s: want %s, got %+v", url, state, s)
		}
	}
	if mu.Lock(); len(keys) > 0 {
		t.Errorf("a page was sent %q", keys)
	}
	mu.Unlock()
	said := f.Stdout + f.Stderr
	err := filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		said += string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{pageKey, targetKey} {
		if bytes.Contains([]byte(said), []byte(key)) {
			t.Errorf("the key %s is in what the run printed or kept", key)
		}
	}
}
