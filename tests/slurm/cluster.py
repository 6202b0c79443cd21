"""Debian's munged, slurmctld and slurmd on this machine, in a folder, with ports and a config of their own."""
import glob
import os
import shutil
import socket
import subprocess
import tempfile
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel")
CONFIG = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits for the credentials of its earlier leg to expire.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0
ReturnToService=2
GresTypes=gpu
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=30
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 Gres=gpu:2 State=UNKNOWN
PartitionName=low Nodes={host} Default=YES PriorityTier=1 MaxTime=60 GraceTime=30
PartitionName=high Nodes={host} PriorityTier=2 MaxTime=60
"""


def why_not():
    """Why no cluster can be started here, or None."""
    if os.geteuid() != 0:
        return "slurmd needs root"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=search_path())]
    return f"{', '.join(missing)} not installed (launch/install_deps.sh test)" if missing else None


def search_path():
    return os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_until(condition, what, seconds=120):
    """The first true value of condition()."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.1)


class Cluster:
    def __init__(self, programs):
        """The folder of programs comes first on the jobs' PATH."""
        self.folder = tempfile.mkdtemp(prefix="slurm_")
        os.chmod(self.folder, 0o755)  # munged asks for it
        self.daemons = []
        self.host = socket.gethostname().split(".")[0]
        config = self.path("slurm.conf")
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith(("DLRM_", "SLURM_", "SBATCH_", "OMPI_", "PMIX_"))}
        self.environment.update(SLURM_CONF=config, PATH=f"{programs}:{search_path()}", OMP_WAIT_POLICY="passive")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(folder=self.folder, host=self.host, ports=free_ports(2)))
        with open(self.path("gres.conf"), "w", encoding="utf-8") as file:
            file.write(f"AutoDetect=off\nName=gpu File={self.path('gpu[0-1]')}\n")
        for name in ("gpu0", "gpu1"):
            open(self.path(name), "wb").close()
        for name in ("state", "spool"):
            os.mkdir(self.path(name))
        with open(os.open(self.path("munge.key"), os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(1024))

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self):
        self.daemon("munged", "--foreground", "--socket", self.path("munge.socket"), "--key-file",
                    self.path("munge.key"), "--pid-file", self.path("munge.pid"), "--seed-file",
                    self.path("munge.seed"), "--log-file", self.path("munge.log"))
        self.wait_for("munged listens", lambda: os.path.exists(self.path("munge.socket")))
        self.daemon("slurmctld", "-D")
        self.wait_for("slurmctld answers", lambda: self.run("scontrol", "ping").returncode == 0)
        self.daemon("slurmd", "-D", "-N", self.host)
        self.wait_for("the node is idle", lambda: "State=IDLE" in self.run("scontrol", "show", "node").stdout)

    def wait_for(self, what, condition):
        """Waits for the daemon that was started last."""
        daemon = self.daemons[-1]
        name = daemon.args[3]
        try:
            wait_until(lambda: condition() or daemon.poll() is not None, what)
            if daemon.poll() is not None:
                raise AssertionError(f"{name} ended with {daemon.returncode}")
        except AssertionError as error:
            with open(self.path(f"{name}.output"), encoding="utf-8", errors="replace") as output:
                raise AssertionError(f"{error}\n{output.read()[-3000:]}") from None

    def daemon(self, *command):
        with open(self.path(f"{command[0]}.output"), "wb") as output:
            # If the test is killed, they end too.
            command = ("setpriv", "--pdeathsig", "TERM", *command)
            self.daemons.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=output,
                                                 stderr=output, start_new_session=True))

    def run(self, *command, folder=None):
        return subprocess.run(command, cwd=folder, env=self.environment, capture_output=True, text=True, timeout=60)

    def processes(self, name):
        """The ids of this cluster's processes of the name."""
        found = []
        for folder in glob.glob("/proc/[0-9]*"):
            try:
                with open(f"{folder}/comm", encoding="utf-8") as comm, open(f"{folder}/environ", "rb") as environ:
                    if comm.read().strip() == name and self.path("slurm.conf").encode() in environ.read():
                        found.append(int(folder[6:]))
            except OSError:
                pass  # it has ended
        return found

    def cancel_all(self):
        self.run("scancel", "--user=root")
        wait_until(lambda: not self.run("squeue", "--noheader").stdout, "all jobs have ended")

    def stop(self):
        """Ends all jobs and the daemons, and removes the folder."""
        try:
            if len(self.daemons) == 3:
                self.cancel_all()
        finally:
            for daemon in reversed(self.daemons):
                daemon.terminate()
                try:
                    daemon.wait(20)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()
            shutil.rmtree(self.folder, ignore_errors=True)
