package report

import (
	"math"
	"strings"

	"plimsoll/internal/scenario"
)

// DescribeLoad names the load of a scenario in a few words.
func DescribeLoad(s *scenario.Scenario) string {
	l, unit := &s.Load, arriving(s)
	var levels []string
	for _, n := range l.Users {
		levels = append(levels, Count(n))
	}
	for _, r := range l.Rate {
		levels = append(levels, Figure(r))
	}
	if len(levels) > 6 {
		levels = append(append(levels[:3:3], "..."), levels[len(levels)-1])
	}
	text := strings.Join(levels, ", ")
	arrival := l.Arrival
	if l.Burstiness != 0 {
		arrival += " of burstiness " + Figure(l.Burstiness)
	}
	switch {
	case len(l.Workloads) > 0:
		text = workloadsText(l)
	case len(l.Steps) > 0:
		text = stepsText(l, unit)
	case len(l.Stages) > 0:
		text = Count(len(l.Stages)) + " stages, " + arrival
	case len(l.Rate) > 0:
		text += unit + ", " + arrival
		if l.Shape.Kind != "" {
			text += ", " + l.Shape.String()
		}
	case text == "1":
		text += " user"
	default:
		text += " users"
	}
	if l.MaxInFlight > 0 {
		text += ", at most " + Count(l.MaxInFlight) + " in flight"
	}
	return text
}

// arriving is the unit of a scenario's rate; a nil one is that of a run of which
// nobody knows.
func arriving(s *scenario.Scenario) string {
	switch {
	case s == nil:
		return "/s"
	case s.Sessions():
		return " sessions/s"
	}
	return " requests/s"
}

// stepsText is the load of steps with users or rates of their own.
func stepsText(l *scenario.Load, unit string) string {
	users, rates := [2]int{math.MaxInt, 0}, [2]float64{math.Inf(1), 0}
	for _, st := range l.Steps {
		users[0], users[1] = min(users[0], st.Users), max(users[1], st.Users)
		rates[0], rates[1] = min(rates[0], st.Rate), max(rates[1], st.Rate)
	}
	text := Plural(len(l.Steps), "step") + " of "
	switch {
	case rates[1] > 0 && rates[0] < rates[1]:
		return text + Figure(rates[0]) + " to " + Figure(rates[1]) + unit + ", " + l.Arrival
	case rates[1] > 0:
		return text + Figure(rates[1]) + unit + ", " + l.Arrival
	case users[0] < users[1]:
		return text + Count(users[0]) + " to " + Plural(users[1], "user")
	}
	return text + Plural(users[1], "user")
}

// workloadsText is the load of workloads with users or rates of their own.
func workloadsText(l *scenario.Load) string {
	var all []string
	for _, w := range l.Workloads {
		text := w.Workload + " " + Plural(w.Users, "user")
		if w.Rate > 0 {
			arrival, burstiness, how := w.Arrivals(l)
			text = w.Workload + " " + Figure(w.Rate) + " sessions/s " + arrival
			if burstiness != 0 {
				text += " of burstiness " + Figure(burstiness)
			}
			if how.Kind != "" {
				text += " " + how.String()
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
