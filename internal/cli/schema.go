package cli

import (
	"plimsoll/internal/scenario"
	"plimsoll/internal/stats"
)

type schemaCmd struct {
	Of string `name:"of" enum:"scenario,summary" default:"scenario" placeholder:"WHAT" help:"scenario or summary."`
}

func (*schemaCmd) Help() string {
	return "An editor that knows the schema completes and checks a scenario while it is written: its first line is then # yaml-language-server: $schema=scenario.schema.json"
}

func (*schemaCmd) Examples() []string {
	return []string{"plimsoll schema > scenario.schema.json", "plimsoll schema --of summary"}
}

func (c *schemaCmd) Run(a *app) error {
	derive := scenario.Schema
	if c.Of == "summary" {
		derive = stats.SummarySchema
	}
	b, err := derive()
	if err != nil {
		return err
	}
	_, err = a.env.Stdout.Write(b)
	return err
}
