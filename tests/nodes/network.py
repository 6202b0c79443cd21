"""Hosts in namespaces of this machine, connected by a switch. Each has a name and an address of its own. Nothing of
this is visible outside of the namespaces, and all of it ends with this process (run_apart)."""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

APART = "NODES_TEST_APART"
PROGRAMS = ("ip", "tc", "nsenter", "unshare", "setpriv", "mpirun")
AGENT = """#!/bin/sh
# Open MPI calls this as it would call ssh: HOST COMMAND... If the host dies, ssh notices it later.
host=$1
shift
nsenter --target "$(cat "{folder}/$host.process")" --net --uts --mount -- sh -c "$*"
status=$?
[ $status -lt 128 ] || sleep 5
exit $status
"""


def search_path():
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def run(*command, check=True):
    environment = {**os.environ, "PATH": search_path()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done


def why_not():
    """Why no hosts can be made here, or None."""
    if os.geteuid() != 0:
        return "namespaces need root"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=search_path())]
    if missing:
        return f"{', '.join(missing)} not installed (launch/install_deps.sh test)"
    trial = run("unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c",
                "ip link add trial type bridge && ip link add one type veth peer name two &&"
                " tc qdisc add dev one root tbf rate 10mbit burst 64kb latency 100ms", check=False)
    if trial.returncode:
        return f"this machine makes no namespaces with links: {trial.stderr.strip()}"
    return None


def run_apart():
    """Starts this program again, with its arguments, in a namespace of processes that all end with it."""
    if APART in os.environ:
        return
    os.environ[APART] = "1"
    os.execvp("unshare", ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", sys.executable,
                          *sys.argv])


class Host:
    """Namespaces that a sleeping process holds."""

    def __init__(self, name, folder):
        self.name = name
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "sh", "-c",
             f"hostname {name} && ip link set lo up && mount --bind {folder}/hosts /etc/hosts && echo ready && "
             "exec sleep infinity >/dev/null"],
            env={**os.environ, "PATH": search_path()}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        with self.holder.stdout as output:
            if output.readline() != "ready\n":
                raise AssertionError(f"{name} does not start")
        self.network = os.readlink(f"/proc/{self.holder.pid}/ns/net")
        with open(os.path.join(folder, f"{name}.process"), "w", encoding="ascii") as file:
            file.write(str(self.holder.pid))

    def command(self, *words):
        """The command that runs `words` here."""
        return ["nsenter", "--target", str(self.holder.pid), "--net", "--uts", "--mount", "--", *words]

    def run(self, *words):
        return run(*self.command(*words)).stdout

    def processes(self):
        """The command lines of the processes here, but for the holder, by their numbers."""
        found = {}
        for folder in glob.glob("/proc/[0-9]*"):
            try:
                number = int(folder[6:])
                if number != self.holder.pid and os.readlink(f"{folder}/ns/net") == self.network:
                    with open(f"{folder}/cmdline", "rb") as line:
                        found[number] = line.read().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                pass  # it has ended
        return found

    def sent_bytes(self):
        return json.loads(self.run("ip", "-s", "-j", "link", "show", "dev", "eth0"))[0]["stats64"]["tx"]["bytes"]

    def stop(self):
        """All processes end at once: none acts on the end of another."""
        for end in (signal.SIGSTOP, signal.SIGKILL):
            for number in self.processes():
                os.kill(number, end)
        self.holder.kill()
        self.holder.wait()


class Network:
    def __init__(self, hosts):
        self.folder = tempfile.mkdtemp(prefix="nodes_")
        names = [f"host{chr(ord('a') + k)}" for k in range(hosts)]
        with open(self.path("hosts"), "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"10.0.0.{k + 1} {name}\n" for k, name in enumerate(names)))
        with open(os.open(self.path("agent"), os.O_CREAT | os.O_WRONLY, 0o755), "w", encoding="ascii") as file:
            file.write(AGENT.format(folder=self.folder))
        self.all = []
        try:
            self.switch = self.add("switch")
            self.switch.run("ip", "link", "add", "bridge", "type", "bridge")
            self.switch.run("ip", "link", "set", "bridge", "up")
            self.hosts = [self.connect(self.add(name), f"10.0.0.{k + 1}/24") for k, name in enumerate(names)]
        except BaseException:
            self.stop()
            raise

    def path(self, name):
        return os.path.join(self.folder, name)

    def add(self, name):
        self.all.append(Host(name, self.folder))
        return self.all[-1]

    def connect(self, host, address):
        port = f"to-{host.name}"
        self.switch.run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns",
                        str(host.holder.pid))
        self.switch.run("ip", "link", "set", port, "master", "bridge", "up")
        host.run("ip", "address", "add", address, "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        return host

    def throttle(self, host, rate):
        """Limits the link of a host in both directions."""
        for end, device in ((host, "eth0"), (self.switch, f"to-{host.name}")):
            end.run("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "64kb", "latency",
                    "100ms")

    def drop_link(self, host):
        """From now on, what the host sends and receives is lost."""
        self.switch.run("ip", "link", "set", f"to-{host.name}", "down")

    def mpirun_options(self, ranks_per_host):
        """The ranks' host file and how to start them on other hosts."""
        with open(self.path("hostfile"), "w", encoding="ascii") as file:
            file.writelines(f"{host.name} slots={ranks_per_host}\n" for host in self.hosts)
        return (f"--hostfile {self.path('hostfile')} --mca plm_rsh_agent {self.path('agent')} "
                f"--mca orte_tmpdir_base {self.folder} --bind-to none")

    def wait_until_empty(self, seconds=10):
        """Waits until no process is left on any host."""
        deadline = time.monotonic() + seconds
        while True:
            left = {host.name: host.processes() for host in self.hosts}
            if not any(left.values()):
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"processes are left: {left}")
            time.sleep(0.2)

    def stop(self):
        for host in self.all:
            host.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
