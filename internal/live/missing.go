package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/detail"
	"plimsoll/internal/phrase"
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
	why, fix *phrase.Phrase
}{
	{
		"engine", signal.Engine,
		[]signal.ID{
			signal.RequestsRunning, signal.RequestsWaiting, signal.KVCacheUsage, signal.PrefixCacheHitRatio, signal.Preemptions,
			signal.QueueTime, signal.PrefillTime, signal.DecodeTime,
		},
		phrase.New("missing.engine", "no page of an engine was found"),
		phrase.New("missing.engine.fix", "turn the engine's metrics on, or name their page: --telemetry http://HOST:PORT/metrics"),
	},
	{
		"accelerator", signal.Accelerator,
		[]signal.ID{signal.SMActive, signal.TensorActive, signal.DRAMActive, signal.FBUsed, signal.Power},
		phrase.New("missing.accelerator", "no exporter of accelerators was found"),
		phrase.New("missing.accelerator.fix", "start dcgm-exporter on the machine of the accelerators (port 9400), or name its page: --telemetry auto,http://HOST:9400/metrics"),
	},
	{
		"network", signal.Network,
		[]signal.ID{signal.NetTx}, // links between accelerators speak for themselves alone
		phrase.New("missing.network", "no exporter of the servers' network was found"), saysStartNode,
	},
	{
		"host", signal.Host,
		[]signal.ID{signal.HostCPU},
		phrase.New("missing.host", "no exporter of the servers' hosts was found"), saysStartNode,
	},
}

// What is said of lanes without data besides.
var (
	saysStartNode    = phrase.New("missing.node.fix", "start node_exporter on the servers (port 9100), or name its page: --telemetry auto,http://HOST:9100/metrics")
	saysTurnedOff    = phrase.New("missing.off", "telemetry was turned off")
	saysPredicted    = phrase.New("missing.predicted", "a prediction reads no telemetry; load and what users feel are the twin's own account")
	saysTurnOn       = phrase.New("missing.off.fix", "run without --telemetry none")
	saysNotRead      = phrase.New("missing.not_read", "{source}: {why}")
	saysKeyAsked     = phrase.New("missing.key", "{source}: a key is asked for")
	saysGiveKey      = phrase.New("missing.key.fix", "name the variable with the key: api-key-env at data.telemetry of a scenario")
	saysNoSuchPage   = phrase.New("missing.absent", "{source}: there is no such page")
	saysNotStated    = phrase.New("missing.not_stated", "{sources} does not state it")
	saysSourceLacks  = phrase.New("missing.lacks", "{source}: {why}")
	saysSourceEnable = phrase.New("missing.enable.fix", "{enable}")
)

// lacking makes an entry; fix is nil where nothing helps.
func lacking(group, name string, why, fix *phrase.Phrase, values ...phrase.Value) detail.Missing {
	m := detail.Missing{Group: group, Signal: name}
	m.Why, m.Said = why.Say(values...)
	if fix != nil {
		m.Fix, m.FixSaid = fix.Say()
	}
	return m
}

// enable gives an entry the text of another as what would fill it.
func enable(m detail.Missing, text string) detail.Missing {
	m.Fix, m.FixSaid = "", phrase.Said{}
	if text != "" {
		m.Fix, m.FixSaid = saysSourceEnable.Say(phrase.Text(text))
	}
	return m
}

// Missing says which lanes of a run have no data, why, and what would fill them, as
// far as what is known of its sources of telemetry tells; none at all is a run
// without telemetry. A group that nobody speaks of has one entry without a signal;
// what to do about it is taken from hints that the search for sources gave.
func Missing(infos []telemetry.SourceInfo, hints ...telemetry.Hint) []detail.Missing {
	out := []detail.Missing{}
	if len(infos) == 0 {
		for _, l := range lanes {
			out = append(out, lacking(l.name, "", saysTurnedOff, saysTurnOn))
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
	var refused *telemetry.SourceInfo
	for i := range infos {
		in := &infos[i]
		if in.Kind == telemetry.KindHost {
			continue // this machine is no server
		}
		if in.State != telemetry.StateOK {
			if refused == nil && in.State != telemetry.StateUnread {
				refused = in
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
			m := lacking(l.name, "", l.why, l.fix)
			for _, h := range hints {
				if h.Source == l.name || l.group == signal.Engine && h.Source != "accelerator" && h.Source != "host" {
					m = enable(m, h.Text)
					break
				}
			}
			if refused != nil && l.group == signal.Engine {
				m.Why, m.Said = says(refused)
				if refused.State == telemetry.StateAuthFailed {
					m.Fix, m.FixSaid = saysGiveKey.Say()
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
			m := lacking(l.name, id.String(), saysNotStated, nil, phrase.Quote(strings.Join(speaks[l.group], ", ")))
			lacks := func(first telemetry.Missing) {
				m.Why, m.Said = saysSourceLacks.Say(phrase.Quote(first.Source), phrase.Text(first.Why))
				m = enable(m, first.Enable)
			}
			if s := signals[id]; s != nil && s.known {
				lacks(s.first)
			} else if d.Kind == signal.Ratio && signals[d.Part] != nil && signals[d.Part].known {
				lacks(signals[d.Part].first)
			} else if l.group == signal.Network || l.group == signal.Host {
				m = lacking(l.name, id.String(), l.why, l.fix) // others than those who speak would state it
			}
			out = append(out, m)
		}
	}
	return out
}

// Predicted says which lanes of a prediction have no data: nothing was read, and what
// is drawn is the twin's own account of its requests.
func Predicted() []detail.Missing {
	out := []detail.Missing{}
	for _, l := range lanes {
		out = append(out, lacking(l.name, "", saysPredicted, nil))
	}
	return out
}

// says says what came of a source.
func says(in *telemetry.SourceInfo) (string, phrase.Said) {
	name := phrase.Quote(in.Name)
	switch in.State {
	case telemetry.StateAuthFailed:
		return saysKeyAsked.Say(name)
	case telemetry.StateAbsent:
		return saysNoSuchPage.Say(name)
	}
	return saysNotRead.Say(name, phrase.Text(cmp.Or(in.Why, fmt.Sprint(in.State))))
}
