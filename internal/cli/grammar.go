package cli

import (
	"github.com/alecthomas/kong"
)

// grammar is every command. Its struct is the command line, its tags the help.
type grammar struct {
	Demo       demoCmd       `cmd:"" help:"A simulated engine, a minute of mixed load against it, and the report. No network, no keys, no files needed."`
	Run        runCmd        `cmd:"" help:"One measured run against an endpoint. Without a file, flags make the scenario."`
	Serve      serveCmd      `cmd:"" help:"The panel: the runs of a folder in a browser, and a REST API."`
	Report     reportCmd     `cmd:"" help:"The report of a saved run."`
	Check      checkCmd      `cmd:"" help:"What an endpoint can do: APIs, models, telemetry; with --probe also streaming, usage and exact lengths."`
	Twin       twinCmd       `cmd:"" help:"A simulated cluster."`
	Workloads  workloadsCmd  `cmd:"" help:"Who the users are: the library of workloads, their shapes, their prompts."`
	Trace      traceCmd      `cmd:"" help:"Traces and data sets: what is in them, and other forms of them."`
	Schema     schemaCmd     `cmd:"" help:"The JSON Schema of the scenario file or of summary.json."`
	Completion completionCmd `cmd:"" help:"The completion script of a shell."`
	Version    versionCmd    `cmd:"" help:"The version of this program."`
}

// flagGroups are the headings under which run's flags are listed.
var flagGroups = []kong.Group{
	{Key: "target", Title: "Target: where requests go"},
	{Key: "cluster", Title: "Cluster: what is simulated"},
	{Key: "users", Title: "Users: who asks, and how much"},
	{Key: "load", Title: "Load: how much at once, and for how long"},
	{Key: "guards", Title: "Guards: when to stop, and what is expected"},
	{Key: "data", Title: "Data: what is kept, and where"},
	{Key: "panel", Title: "Panel: who may use it, and for what"},
	{Key: "output", Title: "Output"},
}

// outputFlag is embedded by commands whose output a program may want.
type outputFlag struct {
	Output string `enum:"text,json" default:"text" placeholder:"FORMAT" group:"output" help:"text or json."`
}

// accessFlags say how to reach a target. Each has the name of its field
// in a scenario file.
type accessFlags struct {
	APIKeyEnv string   `name:"api-key-env" placeholder:"NAME" group:"target" help:"The environment variable that holds the key. The key itself is never written."`
	Header    []string `name:"header" sep:"none" placeholder:"K=V" group:"target" help:"A further header field; may be repeated."`
	CA        string   `name:"ca" placeholder:"FILE" group:"target" help:"PEM file of the authorities to trust instead of the system's."`
	Cert      string   `name:"cert" placeholder:"FILE" group:"target" help:"Client certificate (PEM), with --key."`
	Key       string   `name:"key" placeholder:"FILE" group:"target" help:"Key of the client certificate (PEM)."`
	Insecure  bool     `name:"insecure" group:"target" help:"Do not verify the server's certificate."`
	Proxy     string   `name:"proxy" placeholder:"URL" group:"target" help:"Proxy for all requests. The environment's is never used."`
}
