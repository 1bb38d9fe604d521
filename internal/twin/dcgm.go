package twin

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"plimsoll/internal/random"
)

const (
	// Power as a share of what the device may draw (twin.md 2.8): idlePower between
	// steps; in a step basePower, and more with the shares of bandwidth and
	// arithmetic in use, up to all of it. Base and memory are a fit to an A100's
	// decoding; arithmetic is set so that a prefill draws all of it; idle is a guess.
	idlePower, basePower, memoryPower, tensorPower = 0.12, 0.29, 0.66, 1
	// Temperature in C without and with all the power: guesses.
	coolestGPU, hottestGPU = 28, 72
	// reservedShare is the part of the memory that the driver keeps.
	reservedShare = 0.012
	// smShare is the share of the busy time in which an SM has a warp, on average.
	smShare = 0.9
	// maxExported bounds the devices on the page.
	maxExported = 1024
	// domainDevices is how many devices a node has.
	domainDevices = 8
	// dcgmInterval is the time over which the page averages by default.
	dcgmInterval = time.Second
)

// worked is what one replica's devices did: totals of the steps that have ended,
// and the step under way.
type worked struct {
	total Work
	// joules is the energy of those steps on one device, stepping their time in s.
	joules, stepping float64
	// The step under way lasts from from to until, in ns.
	from, until float64
	step        Work
	watts       float64
}

// begin starts a step; the one before has ended.
func (w *worked) begin(from, until float64, step Work, watts float64) {
	w.from, w.until, w.step, w.watts = from, until, step, watts
}

// end ends the step under way.
func (w *worked) end() { w.advance(1) }

func (w *worked) advance(share float64) {
	w.total.add(&w.step, share)
	seconds := share * (w.until - w.from) / 1e9
	w.stepping += seconds
	w.joules += seconds * w.watts
	w.step = Work{}
	w.from, w.until = 0, 0
}

// at returns the totals at a time, the begun part of the step under way
// included.
func (w *worked) at(now float64) worked {
	s := *w
	if s.until > s.from {
		s.advance(min(max((now-s.from)/(s.until-s.from), 0), 1))
	}
	return s
}

// power returns the watts that a device draws in a step of so many seconds.
func (g *GPU) power(w *Work, seconds float64) float64 {
	memory := (w.ReadBytes + w.WriteBytes) / (g.Bandwidth.V * 1e12 * seconds)
	return g.TDP.V * min(1, basePower+memoryPower*min(memory, 1)+tensorPower*w.Tensor/seconds)
}

// smClock is the highest clock in MHz that data sheets name, recalled; 0 where it
// is not known.
func (g *GPU) smClock() float64 {
	for _, c := range []struct {
		prefix string
		mhz    float64
	}{{"a100", 1410}, {"h100-pcie", 1755}, {"h100", 1980}, {"h200", 1980}, {"l40s", 2520}, {"a10", 1695}, {"l4", 2040}, {"b200", 1965}, {"rtx-4090", 2520}} {
		if strings.HasPrefix(g.Name, c.prefix) {
			return c.mhz
		}
	}
	return 0
}

// devices is what the exporter of accelerators knows: two snapshots of all
// replicas, an update interval apart.
type devices struct {
	mu       sync.Mutex // guards what follows
	from, to snapshot
}

type snapshot struct {
	at   float64 // ns
	done []worked
}

func (s *Server) snapshot() snapshot {
	now := float64(s.clock.Now())
	sn := snapshot{at: now, done: make([]worked, len(s.replicas))}
	for i, r := range s.replicas {
		r.logMu.Lock()
		sn.done[i] = r.worked.at(now)
		r.logMu.Unlock()
	}
	return sn
}

// watchDevices takes a snapshot every interval, on a grid, until ctx ends.
func (s *Server) watchDevices(ctx context.Context) {
	interval := int64(s.cfg.DCGMInterval)
	for next := s.clock.Now() + interval; s.clock.SleepUntil(ctx, next) == nil; {
		sn := s.snapshot()
		s.devices.mu.Lock()
		s.devices.from, s.devices.to = s.devices.to, sn
		s.devices.mu.Unlock()
		next += (1 + (s.clock.Now()-next)/interval) * interval
	}
}

// appendDevices appends the page of dcgm-exporter: averages over the last update
// interval that has ended.
func (s *Server) appendDevices(b []byte) []byte {
	s.devices.mu.Lock()
	from, to := s.devices.from, s.devices.to
	s.devices.mu.Unlock()
	e := &exposition{b: b}
	l, g := s.cluster.Layout, s.cluster.Layout.GPU
	seconds := (to.at - from.at) / 1e9
	total := g.MemoryGiB.V * 1024
	reserved := total * reservedShare
	used := min(s.memory.Usable/(1<<20), total-reserved)
	idle := g.TDP.V * idlePower
	nvlink := g.Domain.V > 1

	// A device's state is that of its replica.
	type state struct {
		Work          // per second
		watts, joules float64
	}
	states := make([]state, len(s.replicas))
	for i := range states {
		st, a, b := &states[i], &from.done[i], &to.done[i]
		st.watts = idle
		st.joules = b.joules + idle*max(0, to.at/1e9-b.stepping)
		if seconds > 0 {
			st.Work.add(&b.total, 1/seconds)
			st.Work.add(&a.total, -1/seconds)
			st.watts = (st.joules - a.joules - idle*max(0, from.at/1e9-a.stepping)) / seconds
		}
	}
	share := func(v float64) float64 { return min(max(v, 0), 1) }
	n := min(len(s.replicas)*l.Devices(), maxExported)
	labelsOf := make([]string, n)
	for i := range labelsOf {
		node, gpu := i/domainDevices, i%domainDevices
		id := random.Derive(s.cfg.Seed, 0x677075, uint64(i)) // "gpu"
		labelsOf[i] = labels(
			"gpu", strconv.Itoa(gpu), "UUID", fmt.Sprintf("GPU-%08x-%04x-4%03x-8%03x-%012x", uint32(id), id>>32&0xffff, id>>48&0xfff, i&0xfff, i),
			"pci_bus_id", fmt.Sprintf("00000000:%02X:00.0", 0x18+0x10*gpu), "device", "nvidia"+strconv.Itoa(gpu), "modelName", g.Title,
			"Hostname", "twin-node-"+strconv.Itoa(node), "DCGM_FI_DRIVER_VERSION", "twin",
			"container", "engine", "namespace", "twin", "pod", "replica-"+strconv.Itoa(i/l.Devices()))
	}
	write := func(name, kind, help string, decimals int, value func(st *state) float64) {
		e.family(name, kind, help)
		for i, all := range labelsOf {
			e.b = append(append(append(append(e.b, name...), '{'), all...), "} "...)
			e.b = append(strconv.AppendFloat(e.b, value(&states[i/l.Devices()]), 'f', decimals, 64), '\n')
		}
	}
	if mhz := g.smClock(); mhz > 0 {
		write("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", 0, func(*state) float64 { return mhz })
	}
	if g.TDP.V > 0 {
		write("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", 0, func(st *state) float64 {
			return coolestGPU + (hottestGPU-coolestGPU)*share(st.watts/g.TDP.V)
		})
		write("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", 6, func(st *state) float64 { return st.watts })
		write("DCGM_FI_DEV_POWER_MGMT_LIMIT", "gauge", "Power management limit (in W).", 6, func(*state) float64 { return g.TDP.V })
		write("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ).", 0, func(st *state) float64 { return 1000 * st.joules })
	}
	write("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries.", 0, func(*state) float64 { return 0 })
	busy := func(st *state) float64 { return share(st.Busy) }
	dram := func(st *state) float64 { return share((st.ReadBytes + st.WriteBytes) / (g.Bandwidth.V * 1e12)) }
	write("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", 0, func(st *state) float64 { return 100 * busy(st) })
	write("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %).", 0, func(st *state) float64 { return 100 * dram(st) })
	e.family("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.")
	for _, all := range labelsOf {
		e.sample("DCGM_FI_DEV_XID_ERRORS", all+`,err_code="0",err_msg="No Error"`, 0)
	}
	write("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", 0, func(*state) float64 { return total - reserved - used })
	write("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", 0, func(*state) float64 { return used })
	write("DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB).", 0, func(*state) float64 { return reserved })
	write("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active.", 6, busy)
	write("DCGM_FI_PROF_SM_ACTIVE", "gauge", "The ratio of cycles an SM has at least 1 warp assigned.", 6, func(st *state) float64 { return smShare * busy(st) })
	write("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles the tensor (HMMA) pipe is active.", 6, func(st *state) float64 { return share(st.Tensor) })
	write("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Ratio of cycles the device memory interface is active sending or receiving data.", 6, dram)
	// Without links of their own the devices talk over PCIe.
	over := func(linked bool) func(st *state) float64 {
		return func(st *state) float64 {
			if linked != nvlink {
				return 0
			}
			return max(0, st.LinkBytes)
		}
	}
	write("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - in bytes per second.", 0, over(false))
	write("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "The rate of data received over the PCIe bus - including both protocol headers and data payloads - in bytes per second.", 0, over(false))
	if nvlink {
		write("DCGM_FI_PROF_NVLINK_TX_BYTES", "gauge", "The rate of data transmitted over NVLink, not including protocol headers, in bytes per second.", 0, over(true))
		write("DCGM_FI_PROF_NVLINK_RX_BYTES", "gauge", "The rate of data received over NVLink, not including protocol headers, in bytes per second.", 0, over(true))
	}
	return e.b
}

// appendNode appends the page of node_exporter about the simulated network
// interface: what clients sent to and were sent by this server, without the
// headers of TCP and IP; and what time it is.
func (s *Server) appendNode(b []byte) []byte {
	e := &exposition{b: b}
	for _, f := range []struct {
		name, kind, help string
		v                float64
	}{
		{"node_network_receive_bytes_total", "counter", "Network device statistic receive_bytes.", float64(s.counters.received.Load())},
		{"node_network_transmit_bytes_total", "counter", "Network device statistic transmit_bytes.", float64(s.counters.sent.Load())},
		{"node_network_up", "gauge", "Value is 1 if operstate is 'up', 0 otherwise.", 1},
	} {
		e.family(f.name, f.kind, f.help)
		e.sample(f.name, labels("device", "eth0"), f.v)
	}
	e.family("node_time_seconds", "gauge", "System time in seconds since epoch (1970).")
	e.sample("node_time_seconds", "", unixSeconds(s.wall()))
	return e.b
}
