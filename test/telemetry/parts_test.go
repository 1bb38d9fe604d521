package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/test/gguf"
	"plimsoll/test/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// part is a real program that runs beside Plimsoll.
type part struct {
	url   string
	ended chan struct{}
}

// startPart runs a program of `make parts` on a free loopback port, in a folder
// of its own, and waits until it answers at ready. It is ended by its process id
// when the test ends.
func startPart(t *testing.T, name, ready string, args func(addr, dir string) []string) *part {
	t.Helper()
	parts := os.Getenv("PLIMSOLL_PARTS")
	binary := filepath.Join(parts, name)
	if _, err := os.Stat(binary); parts == "" || err != nil {
		t.Skipf("no real %s: `make parts` fetches it, `make integration` says where it is (PLIMSOLL_PARTS=%q)", name, parts)
	}
	for range 10 {
		p, log := launch(t, binary, args)
		answers := false
		process.Until(t, name+" answers", func() bool {
			select {
			case <-p.ended:
				return true
			default:
			}
			r, err := (&http.Client{Timeout: 20 * time.Second}).Get(p.url + ready)
			if err != nil {
				return false
			}
			r.Body.Close()
			answers = r.StatusCode == http.StatusOK
			return answers
		})
		if answers {
			return p
		}
		said, _ := os.ReadFile(log)
		if !process.Taken(string(said)) && !strings.Contains(string(said), "couldn't bind") {
			t.Fatalf("%s ended before it answered:\n%s", name, said)
		}
		t.Logf("another program has the port of %s: another one", name)
	}
	t.Fatalf("%s: of 10 ports none is free", name)
	return nil
}

// launch starts a program that is told where to listen, and returns it and its log.
func launch(t *testing.T, binary string, args func(addr, dir string) []string) (*part, string) {
	t.Helper()
	dir := t.TempDir()
	addr := process.FreeAddr(t)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, args(addr, dir)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &part{"http://" + addr, make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the test that needs it sees that it ended
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-p.ended
		}
		log.Close()
		if t.Failed() {
			b, _ := os.ReadFile(log.Name())
			t.Logf("the log of %s ends:\n%s", filepath.Base(binary), b[max(0, len(b)-3000):])
		}
	})
	return p, log.Name()
}

// startNode runs node_exporter.
func startNode(t *testing.T) *part {
	t.Helper()
	return startPart(t, "prometheus-node-exporter", "/metrics", func(addr, _ string) []string {
		return []string{"--web.listen-address=" + addr}
	})
}

// startPrometheus runs Prometheus, which scrapes each job's address every second.
func startPrometheus(t *testing.T, jobs map[string]string) *part {
	t.Helper()
	return startPart(t, "prometheus", "/-/ready", func(addr, dir string) []string {
		var b bytes.Buffer
		b.WriteString("global: {scrape_interval: 1s, scrape_timeout: 900ms}\nscrape_configs:\n")
		for name, u := range jobs {
			fmt.Fprintf(&b, "- job_name: %s\n  static_configs: [{targets: [%q]}]\n", name, strings.TrimPrefix(u, "http://"))
		}
		write(t, filepath.Join(dir, "prometheus.yml"), b.Bytes())
		return []string{"--config.file=prometheus.yml", "--storage.tsdb.path=tsdb", "--storage.tsdb.retention.time=1h", "--web.listen-address=" + addr}
	})
}

// ask puts an instant query to Prometheus and returns the value of each series.
func (p *part) ask(t *testing.T, query string) []float64 {
	t.Helper()
	r, err := http.PostForm(p.url+"/api/v1/query", url.Values{"query": {query}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var a struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("ask for %s: %s, %v", query, r.Status, err)
	}
	var all []float64
	for _, s := range a.Data.Result {
		var v float64
		if _, err := fmt.Sscan(fmt.Sprint(s.Value[1]), &v); err != nil {
			t.Fatalf("ask for %s: %v", query, err)
		}
		all = append(all, v)
	}
	return all
}

// script is what the model says to everything; two characters are spread over
// several tokens, so that events are fewer than tokens.
var script = gguf.Script{Pieces: []string{
	"The", " load", " line", " is", " painted", " caf", "\xc3", "\xa9", " side", " \xe2\x9a\x93", " up", ",", " and", " nobody", " may", " sink", " it", " further", ".",
}}

// startLlama runs llama.cpp's server with the script.
func startLlama(t *testing.T, more ...string) *part {
	t.Helper()
	return startPart(t, "llama/llama-server", "/health", func(addr, dir string) []string {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		var model bytes.Buffer
		if err := gguf.Write(&model, script); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "m.gguf"), model.Bytes())
		return append([]string{"-m", "m.gguf", "--host", host, "--port", port, "--alias", "scripted", "-np", "4", "-t", "1", "-c", "8192", "--no-webui"}, more...)
	})
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// get returns the body of a page.
func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("get %s: %s, %v", url, r.Status, err)
	}
	return string(b)
}

// total sums the samples of one family on a page, whatever their labels.
func total(t *testing.T, page, name string) float64 {
	t.Helper()
	sum, n := 0.0, 0
	for line := range strings.Lines(page) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(rest[strings.LastIndexByte(rest, ' ')+1:], &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum += v
		n++
	}
	if n == 0 {
		t.Fatalf("the page has no %s", name)
	}
	return sum
}
