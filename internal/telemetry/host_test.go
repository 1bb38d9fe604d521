package telemetry

import (
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/clock"
	"plimsoll/internal/signal"
)

// procFiles is a small machine, as Linux 6.18 writes it.
var procFiles = map[string]string{
	"/proc/stat":            "cpu  1253042 214378 199574 631974 1880 0 29469 7967 5 6\ncpu0 634709 104652 98523 311527 1045 0 14608 3920 0 0\ncpu1 618333 109725 101050 320446 835 0 14861 4047 0 0\nintr 45624416 0 0\nctxt 107364764\nbtime 1764506400\n",
	"/proc/meminfo":         "MemTotal:        8142520 kB\nMemFree:         1232716 kB\nMemAvailable:    5204512 kB\nBuffers:            2708 kB\nHugePages_Total:       0\n",
	"/proc/loadavg":         "2.58 3.10 2.66 3/412 90210\n",
	"/proc/net/snmp":        "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors\nTcp: 1 200 120000 -1 350706 347379 3161 96870 0 122376682 122020149 357776 0 55220 0\nUdp: InDatagrams\nUdp: 7\n",
	"/proc/net/netstat":     "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 3 4\nIpExt: InNoRoutes\nIpExt: 9\n",
	"/proc/pressure/cpu":    "some avg10=15.83 avg60=20.00 avg300=19.81 total=3507611934\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	"/proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n",
	"/proc/net/dev": `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 26210388648 122358576    0 1844    0     0          0         0 26210388648 122358576    0    0    0     0       0          0
  eth0: 566338919   27334    1    2    0     0          0         0  2550228   26263    3    4    0     0       0          0
  eth1:10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0
vethab12: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0
   br0: 99 1 0 0 0 0 0 0 98 1 0 0 0 0 0 0
`,
	"/sys/class/net/eth0/speed":          "10000\n",
	"/sys/class/net/br0/speed":           "-1\n",
	"/sys/class/net/eth1/master/ifindex": "5\n",
}

func readProc(name string) ([]byte, error) {
	if text, ok := procFiles[name]; ok {
		return []byte(text), nil
	}
	return nil, os.ErrNotExist
}

// TestHost gives the signals of this machine as worked out by hand from its files: without lo, devices in a bridge and
// containers' ends, and without what a file lacks.
func TestHost(t *testing.T) {
	fake(t, func(t *testing.T, net *servers, c *clock.Clock) {
		var sink sinkLog
		s := newScraper(t, Config{Clock: c, Sink: &sink, Dial: net.Dial, ReadFile: readProc, Targets: []Target{{URL: "http://dead/metrics"}, {Kind: KindHost}}})
		s.Start(t.Context())
		sleep(c, 2500*ms)
		s.Final(t.Context())
		got := map[string]float64{}
		for i, d := range sink.series {
			if d.Source != 1 || d.Signal.Def().Group == signal.Scrape {
				continue
			}
			name := d.Signal.String()
			if d.Labels != "" {
				name += "{" + d.Labels + "}"
			}
			if _, ok := got[name]; ok {
				t.Errorf("%s is declared twice", name)
			}
			var n int
			for _, x := range sink.samples {
				if int(x.Series) == i {
					got[name] = x.Value
					n++
				}
			}
			if n != 3 {
				t.Errorf("%s has %d samples", name, n)
			}
		}
		want := map[string]float64{
			"host_cpu":  (1253042 + 214378 + 199574 + 29469 + 7967) / 100.0,
			"host_cpus": 2, "host_load": 2.58,
			"host_mem_total": 8142520 * 1024, "host_mem_available": 5204512 * 1024,
			"tcp_retransmits": 357776, "tcp_segments_out": 122020149, "tcp_listen_drops": 4,
			"host_pressure_cpu": 3507.611934, "host_pressure_memory": 0.000012,
			"net_rx{device=eth0}": 566338919, "net_tx{device=eth0}": 2550228, "net_errors{device=eth0}": 10, "net_speed{device=eth0}": 1.25e9,
			"net_rx{device=br0}": 99, "net_tx{device=br0}": 98, "net_errors{device=br0}": 0,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		info := s.Info()[1]
		if info.Name != "localhost" || info.URL != "" || info.State != StateOK || info.Scrapes != 3 || len(info.Problems) != 0 || info.Sources[0] != "localhost" {
			t.Errorf("%+v", info)
		}
	})
}

// TestHostWithout says so on a machine that has no /proc, and names a file that is not understood while the rest is used.
func TestHostWithout(t *testing.T) {
	fake(t, func(t *testing.T, _ *servers, c *clock.Clock) {
		s := newScraper(t, Config{Clock: c, Sink: &sinkLog{}, ReadFile: func(string) ([]byte, error) { return nil, os.ErrNotExist }, Targets: []Target{{Kind: KindHost}}})
		s.Baseline(t.Context())
		if info := s.Info()[0]; info.State != StateAbsent || info.Up {
			t.Errorf("%+v", info)
		}
		odd := func(name string) ([]byte, error) {
			if name == "/proc/stat" {
				return []byte("cpu  1 2 x 4\n"), nil
			}
			return readProc(name)
		}
		var sink sinkLog
		s = newScraper(t, Config{Clock: c, Sink: &sink, ReadFile: odd, Targets: []Target{{Kind: KindHost}}})
		s.Baseline(t.Context())
		if info := s.Info()[0]; info.State != StateOK || len(info.Problems) != 1 || !strings.HasPrefix(info.Problems[0].Text, "/proc/stat") {
			t.Errorf("%+v", info)
		}
		if len(sink.of(0, "host_cpu", "")) != 0 || len(sink.of(0, "host_load", "")) != 1 {
			t.Error("the wrong figures")
		}
	})
}

// TestHostHere reads the machine that runs the test.
func TestHostHere(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc")
	}
	c := clock.New()
	var sink sinkLog
	s := newScraper(t, Config{Clock: c, Sink: &sink, ReadFile: os.ReadFile, Targets: []Target{{Kind: KindHost}}})
	s.Baseline(t.Context())
	s.Final(t.Context())
	info := s.Info()[0]
	cpu, mem := sink.of(0, "host_cpu", ""), sink.of(0, "host_mem_available", "")
	total := sink.of(0, "host_mem_total", "")
	cpus := sink.of(0, "host_cpus", "")
	if info.State != StateOK || len(cpu) != 2 || cpu[1].Value < cpu[0].Value || cpu[0].Value <= 0 ||
		len(mem) != 2 || mem[0].Value <= 0 || mem[0].Value > total[0].Value || len(cpus) != 2 || int(cpus[0].Value) < 1 {
		t.Errorf("%+v\ncpu %v mem %v of %v", info, cpu, mem, total)
	}
}

// FuzzHost takes anything for the files of /proc.
func FuzzHost(f *testing.F) {
	for _, text := range procFiles {
		f.Add([]byte(text))
	}
	f.Add([]byte("cpu 1 2 3 4 5 6 7 8 9 10\ncpu"))
	f.Add([]byte("Tcp: a\nTcp:\nTcpExt: ListenDrops\nTcpExt: 99999999999999999999\n"))
	f.Add([]byte("eth0:1 2 3 4 5 6 7 8 9 10 11 12"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var all []hostValue
		for _, file := range hostFiles {
			got, err := file.parse(b, nil)
			if err == nil && len(got) == 0 {
				t.Errorf("%s: nothing and no error", file.name)
			}
			all = append(all, got...)
		}
		got, _ := parseNetDev(b, nil, func(string) bool { return false })
		for _, v := range append(all, got...) {
			if math.IsNaN(v.value) || math.IsInf(v.value, 0) || v.value < 0 || strings.ContainsAny(v.device, ",=\n") {
				t.Errorf("%v of %q: %v", v.signal, v.device, v.value)
			}
		}
	})
}
