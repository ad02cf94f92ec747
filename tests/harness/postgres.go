package harness

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Database is a PostgreSQL database. URL contains its user, whose password is "secret".
type Database struct {
	URL string
	*pgx.Conn
}

// Run executes a statement.
func (d *Database) Run(t testing.TB, sql string) {
	t.Helper()
	if _, err := d.Exec(context.Background(), sql); err != nil {
		t.Fatal(err)
	}
}

// Postgres starts a PostgreSQL server with the database and user shop. It skips the test if PostgreSQL is not installed.
func Postgres(t testing.TB) *Database {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is valid
	if len(found) == 0 {
		t.Skip("no PostgreSQL in /usr/lib/postgresql: apt-get install postgresql")
	}
	bin := filepath.Dir(found[len(found)-1])
	dir, err := os.MkdirTemp("", "weft-pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var runAs []string
	if os.Geteuid() == 0 { // PostgreSQL does not run as root
		runAs = []string{"runuser", "-u", "postgres", "--"}
		if out, err := exec.Command("chown", "postgres", dir).CombinedOutput(); err != nil {
			t.Skipf("no user postgres: %s", out)
		}
	}
	run := func(stdin string, command ...string) {
		t.Helper()
		command = append(slices.Clone(runAs), command...)
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		log, err := os.Create(filepath.Join(dir, "output"))
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log // a pipe would be held open by the server
		if err := cmd.Run(); err != nil {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("%v: %v\n%s", command, err, text)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	data := filepath.Join(dir, "data")
	run("", bin+"/initdb", "-D", data, "--auth-local=trust", "--auth-host=scram-sha-256", "-U", "postgres", "--no-sync")
	run("", bin+"/pg_ctl", "-D", data, "-l", filepath.Join(dir, "log"), "-w", "-o", fmt.Sprintf("-c listen_addresses=127.0.0.1 -c fsync=off -p %d -k %s", port, dir), "start")
	t.Cleanup(func() { run("", bin+"/pg_ctl", "-D", data, "-m", "immediate", "-w", "stop") })
	run("CREATE ROLE shop LOGIN PASSWORD 'secret'; CREATE DATABASE shop OWNER shop;", bin+"/psql", "-h", dir, "-p", fmt.Sprint(port), "-U", "postgres", "-v", "ON_ERROR_STOP=1")
	d := &Database{URL: fmt.Sprintf("postgres://shop@127.0.0.1:%d/shop?sslmode=disable", port)}
	if d.Conn, err = pgx.Connect(context.Background(), strings.Replace(d.URL, "shop@", "shop:secret@", 1)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(context.Background()) })
	return d
}
