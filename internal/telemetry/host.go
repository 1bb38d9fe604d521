package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/signal"
)

// clockTicks is the unit of /proc/stat: USER_HZ, which Linux has fixed at 100 for programs.
const clockTicks = 100

// maxDevices bounds the network devices that are looked at.
const maxDevices = 1024

// virtualDevices begin the names of network devices whose bytes pass another device
// as well, or none at all.
var virtualDevices = []string{"lo", "veth", "docker", "br-", "virbr", "cni", "flannel", "cali", "tunl", "dummy", "ifb", "nerdctl", "lxc", "kube-ipvs", "nodelocaldns", "sit"}

// hostSource reads what the operating system says of this machine: Linux's /proc. It gives the signals of
// node_exporter's table without an exporter.
type hostSource struct {
	now      func() int64
	readFile func(string) ([]byte, error)

	ids     map[hostKey]int32
	devices map[string]deviceInfo
	samples []signal.Sample
	values  []hostValue
}

// hostKey is one series of the host.
type hostKey struct {
	signal signal.ID
	device string
}

// hostValue is one value of the host.
type hostValue struct {
	hostKey
	value float64
}

// deviceInfo is what /sys knows of a network device.
type deviceInfo struct {
	skip  bool
	speed float64 // bytes/s, 0 when unknown
}

func newHost(c *clock.Clock, readFile func(string) ([]byte, error)) *hostSource {
	return &hostSource{now: c.Now, readFile: readFile, ids: map[hostKey]int32{}, devices: map[string]deviceInfo{}}
}

// hostFiles are the files of /proc with their parsers; each gives what it can.
var hostFiles = []struct {
	name  string
	parse func(b []byte, out []hostValue) ([]hostValue, error)
}{
	{"/proc/stat", parseStat},
	{"/proc/meminfo", parseMeminfo},
	{"/proc/loadavg", parseLoadavg},
	{"/proc/net/snmp", parseSNMP},
	{"/proc/net/netstat", parseNetstat},
	{"/proc/pressure/cpu", pressureParser(signal.HostPressureCPU)},
	{"/proc/pressure/memory", pressureParser(signal.HostPressureMemory)},
	{"/proc/pressure/io", pressureParser(signal.HostPressureIO)},
}

func (h *hostSource) read(_ context.Context, sink signal.Sink, _ time.Duration, r *reading) {
	r.start = h.now()
	h.values = h.values[:0]
	for _, f := range hostFiles {
		b, err := h.readFile(f.name)
		if err != nil {
			continue // an older kernel or a container without it: the signal is absent
		}
		r.bytes += int64(len(b))
		if h.values, err = f.parse(b, h.values); err != nil {
			r.problem(0, fmt.Sprintf("%s: %s", f.name, oneLine(err.Error())), 1)
		}
	}
	if b, err := h.readFile("/proc/net/dev"); err == nil {
		r.bytes += int64(len(b))
		if h.values, err = parseNetDev(b, h.values, h.skip); err != nil {
			r.problem(0, "/proc/net/dev: "+oneLine(err.Error()), 1)
		}
		for _, v := range h.values {
			if v.signal == signal.NetRx && h.devices[v.device].speed > 0 {
				h.values = append(h.values, hostValue{hostKey{signal.NetSpeed, v.device}, h.devices[v.device].speed})
			}
		}
	}
	r.end = h.now()
	r.cost = r.end - r.start
	if len(h.values) == 0 {
		r.state, r.why = StateAbsent, "this machine has no /proc that can be read"
		return
	}
	h.samples = h.samples[:0]
	for _, v := range h.values {
		id, ok := h.ids[v.hostKey]
		if !ok {
			labels := ""
			if v.device != "" {
				labels = "device=" + v.device
			}
			id = sink.Declare(signal.Series{Signal: v.signal, Labels: labels})
			h.ids[v.hostKey] = id
		}
		h.samples = append(h.samples, signal.Sample{Series: id, Start: r.start, End: r.end, Value: v.value})
	}
	sink.Add(h.samples)
	r.state, r.series, r.sources = StateOK, len(h.samples), []string{"localhost"}
}

// skip says whether a device's bytes are counted elsewhere, and looks it up in /sys the first time.
func (h *hostSource) skip(name string) bool {
	d, ok := h.devices[name]
	if ok {
		return d.skip
	}
	if len(h.devices) >= maxDevices {
		return true
	}
	for _, v := range virtualDevices {
		if name == v || strings.HasPrefix(name, v) && v != "lo" {
			d.skip = true
		}
	}
	if !d.skip && !strings.ContainsAny(name, "/.") {
		// A device in a bridge or bond: what passes it passes that.
		if _, err := h.readFile("/sys/class/net/" + name + "/master/ifindex"); err == nil {
			d.skip = true
		}
		if b, err := h.readFile("/sys/class/net/" + name + "/speed"); err == nil {
			if mbit, err := strconv.ParseFloat(string(bytes.TrimSpace(b)), 64); err == nil && mbit > 0 && mbit < 1e8 {
				d.speed = mbit * 1e6 / 8
			}
		}
	}
	h.devices[name] = d
	return d.skip
}

var errNoFigures = errors.New("it has none of the figures that are looked for")

// procNumber parses a count of the kernel's.
func procNumber(b []byte) (float64, bool) {
	v, err := strconv.ParseUint(string(b), 10, 64)
	return float64(v), err == nil
}

// procLines calls f with each line until it returns false.
func procLines(b []byte, f func(line []byte) bool) {
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte{'\n'})
		if !f(bytes.TrimRight(line, "\r")) {
			return
		}
		b = rest
	}
}

// parseStat reads the processor time that was not idle, and the processors.
func parseStat(b []byte, out []hostValue) ([]hostValue, error) {
	cpus, busy, found := 0, 0.0, false
	procLines(b, func(line []byte) bool {
		name, rest, ok := bytes.Cut(line, []byte{' '})
		if !ok || !bytes.HasPrefix(name, []byte("cpu")) {
			return true
		}
		if len(name) > len("cpu") {
			if _, ok := procNumber(name[len("cpu"):]); ok {
				cpus++
			}
			return true
		}
		// user nice system idle iowait irq softirq steal guest guest_nice: guests are in user and nice already.
		fields := bytes.Fields(rest)
		if len(fields) < 4 {
			return true
		}
		sum := 0.0
		for i, f := range fields[:min(len(fields), 8)] {
			v, ok := procNumber(f)
			if !ok {
				return true
			}
			if i != 3 && i != 4 {
				sum += v
			}
		}
		busy, found = sum/clockTicks, true
		return true
	})
	if !found {
		return out, errNoFigures
	}
	out = append(out, hostValue{hostKey{signal.HostCPU, ""}, busy})
	if cpus > 0 {
		out = append(out, hostValue{hostKey{signal.HostCPUs, ""}, float64(cpus)})
	}
	return out, nil
}

// parseMeminfo reads the memory that there is and that is available.
func parseMeminfo(b []byte, out []hostValue) ([]hostValue, error) {
	n := len(out)
	procLines(b, func(line []byte) bool {
		var id signal.ID
		name, rest, _ := bytes.Cut(line, []byte{':'})
		switch string(name) {
		case "MemTotal":
			id = signal.HostMemTotal
		case "MemAvailable":
			id = signal.HostMemAvailable
		default:
			return true
		}
		value, unit, _ := bytes.Cut(bytes.TrimSpace(rest), []byte{' '})
		if v, ok := procNumber(value); ok && string(unit) == "kB" {
			out = append(out, hostValue{hostKey{id, ""}, v * 1024})
		}
		return len(out) < n+2
	})
	if len(out) == n {
		return out, errNoFigures
	}
	return out, nil
}

// parseLoadavg reads the load average over a minute.
func parseLoadavg(b []byte, out []hostValue) ([]hostValue, error) {
	first, _, _ := bytes.Cut(b, []byte{' '})
	v, err := strconv.ParseFloat(string(first), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return out, errNoFigures
	}
	return append(out, hostValue{hostKey{signal.HostLoad, ""}, v}), nil
}

// parseSNMP reads /proc/net/snmp, parseNetstat /proc/net/netstat: pairs of lines, names above values.
func parseSNMP(b []byte, out []hostValue) ([]hostValue, error) {
	return parsePairs(b, "Tcp:", out, func(name string) signal.ID {
		switch name {
		case "RetransSegs":
			return signal.TCPRetransmits
		case "OutSegs":
			return signal.TCPSegmentsOut
		}
		return signal.None
	})
}

func parseNetstat(b []byte, out []hostValue) ([]hostValue, error) {
	return parsePairs(b, "TcpExt:", out, func(name string) signal.ID {
		if name == "ListenDrops" {
			return signal.TCPListenDrops
		}
		return signal.None
	})
}

func parsePairs(b []byte, group string, out []hostValue, id func(name string) signal.ID) ([]hostValue, error) {
	var names [][]byte
	n := len(out)
	procLines(b, func(line []byte) bool {
		rest, ok := bytes.CutPrefix(line, []byte(group))
		if !ok {
			names = nil
			return true
		}
		fields := bytes.Fields(rest)
		if names == nil {
			names = fields
			return true
		}
		for i := range min(len(names), len(fields)) {
			if s := id(string(names[i])); s != signal.None {
				if v, ok := procNumber(fields[i]); ok {
					out = append(out, hostValue{hostKey{s, ""}, v})
				}
			}
		}
		return false
	})
	if len(out) == n {
		return out, errNoFigures
	}
	return out, nil
}

// pressureParser reads a file of /proc/pressure: how long some task has waited, in total.
func pressureParser(id signal.ID) func([]byte, []hostValue) ([]hostValue, error) {
	return func(b []byte, out []hostValue) ([]hostValue, error) {
		found := false
		procLines(b, func(line []byte) bool {
			rest, ok := bytes.CutPrefix(line, []byte("some "))
			if !ok {
				return true
			}
			for _, f := range bytes.Fields(rest) {
				if text, ok := bytes.CutPrefix(f, []byte("total=")); ok {
					if us, ok := procNumber(text); ok {
						out = append(out, hostValue{hostKey{id, ""}, us / 1e6})
						found = true
					}
					break
				}
			}
			return false
		})
		if !found {
			return out, errNoFigures
		}
		return out, nil
	}
}

// parseNetDev reads the bytes and errors of network devices but those to skip.
func parseNetDev(b []byte, out []hostValue, skip func(name string) bool) ([]hostValue, error) {
	devices, bad := 0, 0
	procLines(b, func(line []byte) bool {
		name, rest, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			return true // the head
		}
		if devices++; devices > maxDevices {
			return false
		}
		device := string(bytes.TrimSpace(name))
		if device == "" || strings.ContainsAny(device, "=,") || skip(device) {
			return true
		}
		// Receive: bytes packets errs drop fifo frame compressed multicast; transmit: bytes packets errs drop ...
		fields := bytes.Fields(rest)
		if len(fields) < 12 {
			bad++
			return true
		}
		var v [12]float64
		for i := range v {
			if v[i], ok = procNumber(fields[i]); !ok {
				bad++
				return true
			}
		}
		out = append(out,
			hostValue{hostKey{signal.NetRx, device}, v[0]},
			hostValue{hostKey{signal.NetTx, device}, v[8]},
			hostValue{hostKey{signal.NetErrors, device}, v[2] + v[3] + v[10] + v[11]})
		return true
	})
	switch {
	case bad > 0:
		return out, fmt.Errorf("%d devices have a line that is not understood", bad)
	case devices == 0:
		return out, errNoFigures
	}
	return out, nil
}
