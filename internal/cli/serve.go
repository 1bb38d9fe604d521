package cli

import (
	"fmt"
	"net"
	"net/url"

	"plimsoll/internal/web"
)

// serveFlags say where a panel listens and what it allows.
type serveFlags struct {
	Host     []string `name:"host" placeholder:"NAME,..." group:"panel" help:"Further names by which the panel may be called, as that of a proxy in front of it."`
	Token    bool     `name:"token" group:"panel" help:"Ask for a token on a loopback address too: on a machine that others use. On any other address one is always asked for."`
	ReadOnly bool     `name:"read-only" group:"panel" help:"Only show: nothing is started, changed or deleted."`
	Files    string   `name:"files" placeholder:"DIR" group:"panel" help:"Scenarios that are started in the panel may name files of this folder (default none)."`
	AllowEnv []string `name:"allow-env" placeholder:"NAME,..." group:"panel" help:"Environment variables that such scenarios may name beside PLIMSOLL_... and ..._API_KEY."`
}

// panel returns a server over a folder of runs that listens on address.
func (a *app) panel(runs, address string, f *serveFlags) (*web.Server, net.Listener, string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(a.ctx, "tcp", address)
	if err != nil {
		return nil, nil, "", usagef("listen on %s: %w", address, err)
	}
	listen := l.Addr().String()
	token := ""
	if f.Token || !web.Loopback(listen) {
		token = web.NewToken()
	}
	cfg := web.Config{
		Root: a.env.path(runs), Version: buildInfo().Version, Listen: listen, Hosts: f.Host, Token: token,
		LookupEnv: a.env.lookup, AllowEnv: f.AllowEnv, ReadOnly: f.ReadOnly,
	}
	if f.Files != "" {
		cfg.Files = a.env.path(f.Files)
	}
	s, err := web.New(cfg)
	if err != nil {
		_ = l.Close() // the first error is told
		return nil, nil, "", err
	}
	u := url.URL{Scheme: "http", Host: listen, Path: "/"}
	if token != "" {
		u.RawQuery = url.Values{"token": {token}}.Encode()
	}
	return s, l, u.String(), nil
}

type serveCmd struct {
	Runs   string `name:"runs" default:"runs" placeholder:"DIR" help:"Folder of runs."`
	Listen string `name:"listen" default:"127.0.0.1:8315" placeholder:"ADDR" help:"Address to listen on; port 0 takes a free one."`
	serveFlags
}

func (*serveCmd) Help() string {
	return "The panel shows the runs of a folder in a browser, starts new ones, and is a REST API (/api/openapi.json). Only this machine can reach it unless --listen says otherwise; then a token is needed, which is made anew at each start and is in the address that is printed."
}

func (*serveCmd) Examples() []string {
	return []string{"plimsoll serve", "plimsoll serve --runs results --listen 0.0.0.0:8315"}
}

func (c *serveCmd) Run(a *app) (err error) {
	s, l, u, err := a.panel(c.Runs, c.Listen, &c.serveFlags)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.env.Stdout, "panel at %s\n", u)
	if err = s.Serve(a.ctx, l); err == nil {
		err = s.Close(a.hard)
	}
	return err
}
