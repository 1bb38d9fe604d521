package live

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/detail"
	"plimsoll/internal/signal"
	"plimsoll/internal/telemetry"
)

// lanes are the groups of lanes that servers fill, with their signals.
var lanes = []struct {
	name  string
	group signal.Group
	// signals are those without which a lane is empty.
	signals []signal.ID
	// what would fill the group when nothing does.
	why, fix string
}{
	{
		"engine", signal.Engine,
		[]signal.ID{
			signal.RequestsRunning, signal.RequestsWaiting, signal.KVCacheUsage, signal.PrefixCacheHitRatio, signal.Preemptions,
			signal.QueueTime, signal.PrefillTime, signal.DecodeTime,
		},
		"no page of an engine was found", "turn the engine's metrics on, or name their page: --telemetry http://HOST:PORT/metrics",
	},
	{
		"accelerator", signal.Accelerator,
		[]signal.ID{signal.SMActive, signal.TensorActive, signal.DRAMActive, signal.FBUsed, signal.Power},
		"no exporter of accelerators was found", "start dcgm-exporter on the machine of the accelerators (port 9400), or name its page: --telemetry auto,http://HOST:9400/metrics",
	},
	{
		"network", signal.Network,
		[]signal.ID{signal.NetTx}, // links between accelerators speak for themselves alone
		"no exporter of the servers' network was found", "start node_exporter on the servers (port 9100), or name its page: --telemetry auto,http://HOST:9100/metrics",
	},
	{
		"host", signal.Host,
		[]signal.ID{signal.HostCPU},
		"no exporter of the servers' hosts was found", "start node_exporter on the servers (port 9100), or name its page: --telemetry auto,http://HOST:9100/metrics",
	},
}

// Missing says which lanes of a run have no data, why, and what would fill them, as
// far as what is known of its sources of telemetry tells; none at all is a run
// without telemetry. A group that nobody speaks of has one entry without a signal;
// what to do about it is taken from hints that the search for sources gave.
func Missing(infos []telemetry.SourceInfo, hints ...telemetry.Hint) []detail.Missing {
	out := []detail.Missing{}
	if len(infos) == 0 {
		for _, l := range lanes {
			out = append(out, detail.Missing{Group: l.name, Why: "telemetry was turned off", Fix: "run without --telemetry none"})
		}
		return out
	}
	// lacks has what a source says of a signal that it does not give.
	type lack struct {
		known, given bool
		first        telemetry.Missing
	}
	signals := make(map[signal.ID]*lack)
	speaks := make(map[signal.Group][]string) // sources by group
	refused := ""
	for i := range infos {
		in := &infos[i]
		if in.Kind == telemetry.KindHost {
			continue // this machine is no server
		}
		if in.State != telemetry.StateOK {
			if refused == "" && in.State != telemetry.StateUnread {
				refused = in.Name + ": " + says(in)
			}
			continue
		}
		for _, name := range in.Sources {
			t := telemetry.Lookup(name)
			if t == nil {
				continue
			}
			groups := make(map[signal.Group]bool)
			for text := range t.Signals {
				id, ok := signal.Lookup(text)
				if !ok {
					continue
				}
				l := signals[id]
				if l == nil {
					l = new(lack)
					signals[id] = l
				}
				l.known = true
				at := slices.IndexFunc(in.Missing, func(m telemetry.Missing) bool { return m.Source == name && m.Signal == text })
				switch {
				case at < 0:
					l.given = true
					groups[id.Def().Group] = true
				case l.first == (telemetry.Missing{}):
					l.first = in.Missing[at]
				}
			}
			for g := range groups {
				if !slices.Contains(speaks[g], name) {
					speaks[g] = append(speaks[g], name)
				}
			}
		}
	}
	given := func(id signal.ID) bool { return signals[id] != nil && signals[id].given }
	for _, l := range lanes {
		if len(speaks[l.group]) == 0 {
			m := detail.Missing{Group: l.name, Why: l.why, Fix: l.fix}
			for _, h := range hints {
				if h.Source == l.name || l.group == signal.Engine && h.Source != "accelerator" && h.Source != "host" {
					m.Fix = h.Text
					break
				}
			}
			if refused != "" && l.group == signal.Engine {
				m.Why = refused
				if strings.Contains(refused, "key") {
					m.Fix = "name the variable with the key: api-key-env at data.telemetry of a scenario"
				}
			}
			out = append(out, m)
			continue
		}
		for _, id := range l.signals {
			d := id.Def()
			if given(id) || d.Kind == signal.Ratio && given(d.Part) && given(d.Whole) {
				continue
			}
			m := detail.Missing{Group: l.name, Signal: id.String(), Why: strings.Join(speaks[l.group], ", ") + " does not state it"}
			if s := signals[id]; s != nil && s.known {
				m.Why, m.Fix = s.first.Source+": "+s.first.Why, s.first.Enable
			} else if d.Kind == signal.Ratio && signals[d.Part] != nil && signals[d.Part].known {
				first := signals[d.Part].first
				m.Why, m.Fix = first.Source+": "+first.Why, first.Enable
			} else if l.group == signal.Network || l.group == signal.Host {
				m.Why, m.Fix = l.why, l.fix // others than those who speak would state it
			}
			out = append(out, m)
		}
	}
	return out
}

// says says what came of a source.
func says(in *telemetry.SourceInfo) string {
	switch in.State {
	case telemetry.StateAuthFailed:
		return "a key is asked for"
	case telemetry.StateAbsent:
		return "there is no such page"
	}
	if in.Why != "" {
		return in.Why
	}
	return fmt.Sprint(in.State)
}
