#!/usr/bin/env python3
"""Scripts of launch/, with stand-ins for cmake, mpirun, srun, nvidia-smi and the programs."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


UNBOUND = dict.fromkeys(("OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY"), "")


class Tree(unittest.TestCase):
    """A folder with launch/, a config, and files that a test adds."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(os.path.join(ROOT, "launch"), os.path.join(self.folder, "launch"))
        os.symlink(os.path.join(ROOT, "python"), os.path.join(self.folder, "python"))
        self.write("config.yaml", "train: {global_batch_size: 8}\n")

    def write(self, path, text):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def program(self, path, body="exit 0"):
        os.chmod(self.write(path, f"#!/bin/bash\n{body}\n"), 0o755)

    def start(self, command, **variables):
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("DLRM_", "SLURM_"))}
        environment.update({"PATH": os.path.join(self.folder, "bin") + ":/usr/bin:/bin",
                            "PYTHONPATH": os.path.join(self.folder, "python"), **variables})
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60)


class EveryScript(Tree):
    SCRIPTS = ["build", "bundle", "fresh_root", "gpu_acceptance", "install_deps", "preflight", "quickstart", "run", "test"]

    def test_is_known_here(self):
        found = sorted(name[:-3] for name in os.listdir(os.path.join(ROOT, "launch")) if name.endswith(".sh"))
        self.assertEqual(found, self.SCRIPTS)

    def test_has_help(self):
        for name in self.SCRIPTS:
            for option in ("-h", "--help"):
                done = self.start([f"launch/{name}.sh", option])
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)
                self.assertRegex(done.stdout, rf"(?m)^  launch/{name}\.sh|^usage: ", name)
                for line in done.stdout.splitlines():
                    self.assertFalse(line.startswith(("#", "set ")), f"{name}: {line}")

    def test_ends_with_2_for_an_unknown_option(self):
        for name in self.SCRIPTS:
            done = self.start([f"launch/{name}.sh", "--wrong"])
            self.assertEqual((done.returncode, done.stdout), (2, ""), name)
            self.assertIn(f"launch/{name}.sh", done.stderr)


class InstallDeps(Tree):
    def test_names_the_groups_if_one_is_unknown(self):
        for group in ("WRONG", "buil", "#"):
            done = self.start(["launch/install_deps.sh", "build", group])
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"error: unknown group {group}: launch/install_deps.sh [GROUP...], "
                                          "of build test fuzz python torch pip kserve peers root\n")


class Build(Tree):
    """With stand-ins for the build tools."""

    def setUp(self):
        super().setUp()
        for name in ("CMakePresets.json", "pyproject.toml"):
            shutil.copy(os.path.join(ROOT, name), self.folder)
        self.program("bin/dpkg-query", "echo install ok installed")

    def ninja(self, of, code=0):
        self.program("bin/cmake", f'[ "$1" = --build ] || exit 0\nfor i in $(seq {of}); do echo "[$i/{of}] Building $i"; '
                                  f'done\necho "what ninja said last" >&2\nexit {code}')

    def test_names_the_presets_if_one_is_unknown(self):
        done = self.start(["launch/build.sh", "gpu"])
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("unknown preset gpu (there are cpu ", done.stderr)

    def test_shows_each_tenth_and_keeps_the_rest_in_the_log(self):
        self.ninja(200)
        done = self.start(["launch/build.sh", "--log", "log", "cpu", "programs"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([line.split(",")[0].split() for line in done.stdout.splitlines()],
                         [[str(10 * tenth), "%", "built"] for tenth in range(11)])
        with open(os.path.join(self.folder, "log"), encoding="utf-8") as file:
            self.assertEqual(len(file.read().splitlines()), 201)

    def test_shows_the_end_of_a_failure(self):
        self.ninja(3, code=1)
        done = self.start(["launch/build.sh", "--log", "log", "simt"])
        self.assertEqual(done.returncode, 2)
        self.assertIn("what ninja said last\nerror: the preset simt was not built", done.stderr)


class FreshRoot(Tree):
    def test_says_why_it_cannot_run(self):
        done = self.start(["launch/fresh_root.sh"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^fresh root: not run: .*\n$")


class RunSh(Tree):
    def setUp(self):
        super().setUp()
        self.asked("auto")
        self.program("bin/mpirun", 'echo "$@"')
        self.program("bin/nvidia-smi", "exit 9")

    def build(self, *presets):
        """Programs that say which device is asked for."""
        for preset in presets:
            self.program(f"build/{preset}/bin/dlrm-train", 'case "$*" in *"--print device"*) cat device ;; esac')

    def asked(self, device):
        self.write("device", device)

    def with_gpu(self):
        self.program("bin/nvidia-smi", 'echo "GPU 0: A GPU (UUID: GPU-1)"')

    def run_sh(self, *arguments, **variables):
        return self.start(["launch/run.sh", "-np", "2", "config.yaml", *arguments], **variables)

    def expect_build(self, preset, *arguments):
        done = self.run_sh(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"/build/{preset}/bin/dlrm-train config.yaml", done.stdout)
        return done

    def test_without_a_gpu_the_cpu_build_is_taken(self):
        self.build("cpu", "cuda")
        self.expect_build("cpu")

    def test_where_a_gpu_answers_its_build_is_taken(self):
        self.build("cpu", "cuda")
        self.with_gpu()
        self.assertEqual(self.expect_build("cuda").stderr, "")

    def test_where_a_gpu_answers_and_has_no_build_that_is_said(self):
        self.build("cpu")
        self.with_gpu()
        self.assertIn("launch/build.sh cuda", self.expect_build("cpu").stderr)

    def test_the_device_is_the_one_that_dlrm_train_reads_from_its_arguments(self):
        self.build("cpu", "cuda")
        self.asked("cuda")
        self.expect_build("cuda")
        self.with_gpu()
        self.asked("cpu")
        self.expect_build("cpu")

    def test_asking_for_a_gpu_without_its_build_ends_with_2(self):
        self.build("cpu")
        self.asked("cuda")
        done = self.run_sh("--device", "cuda")
        self.assertEqual(done.returncode, 2)
        self.assertIn("launch/build.sh cuda", done.stderr)

    def test_a_program_given_by_name_goes_before_all(self):
        self.build("cpu", "cuda")
        done = self.run_sh("--device", "cuda", DLRM_TRAIN="/somewhere/dlrm-train")
        self.assertIn("/somewhere/dlrm-train config.yaml --device cuda", done.stdout)

    def test_nothing_built_ends_with_2(self):
        self.assertEqual(self.run_sh().returncode, 2)

    def on_machine(self, cores, threads_a_core=2, usable=None, quota="max 100000"):
        """Stand-ins that tell of a machine, and an mpirun that says how ranks are bound."""
        cpus = cores * threads_a_core
        lines = "\\n".join(str(cpu % cores) for cpu in range(cpus))
        self.program("bin/lscpu", f'printf "# Core\\n{lines}\\n"')
        self.program("bin/nproc", f"echo {usable or cpus}")
        self.program("bin/cat", f'case "$1" in */cpu.max) echo {quota} ;; *) exec /bin/cat "$@" ;; esac')
        self.program("bin/mpirun", 'echo "$@"; echo "places=$OMP_PLACES bind=$OMP_PROC_BIND"')
        self.build("cpu")

    def test_each_rank_gets_cores_of_its_own_and_each_thread_a_core(self):
        self.on_machine(cores=64)
        for ranks, each in ((1, 64), (2, 32), (3, 21), (64, 1)):
            told = self.start(["launch/run.sh", "-np", str(ranks), "config.yaml"], **UNBOUND).stdout
            self.assertIn(f"--map-by slot:PE={each} --bind-to core", told)
            self.assertIn("places=cores bind=close", told)

    def test_ranks_are_not_bound_if_there_are_more_than_cores(self):
        self.on_machine(cores=2)
        told = self.start(["launch/run.sh", "-np", "3", "config.yaml"], **UNBOUND).stdout
        self.assertIn("--oversubscribe --bind-to none", told)
        self.assertIn("places= bind=\n", told)

    def test_ranks_are_not_bound_where_only_some_cpus_are_theirs(self):
        for limit in ({"usable": 6}, {"quota": "200000 100000"}):
            self.on_machine(cores=8, **limit)
            self.assertIn("--bind-to none", self.run_sh(**UNBOUND).stdout, limit)

    def test_the_environment_decides_about_threads_first(self):
        self.on_machine(cores=8)
        for variable, value in (("OMP_NUM_THREADS", "1"), ("OMP_PLACES", "threads"), ("OMP_PROC_BIND", "spread"),
                                ("GOMP_CPU_AFFINITY", "0-3")):
            self.assertIn("--bind-to none", self.run_sh(**{**UNBOUND, variable: value}).stdout, variable)

    def test_mpirun_options_replace_all_binding(self):
        self.on_machine(cores=8)
        told = self.run_sh(**UNBOUND, MPIRUN_OPTIONS="--hostfile hosts").stdout
        self.assertIn("--hostfile hosts -np 2", told)
        self.assertNotIn("bind-to", told)

    def test_mpirun_notices_soon_that_a_host_is_gone_unless_told_otherwise(self):
        self.build("cpu")
        self.program("bin/mpirun", "env | sed -n s/OMPI_MCA_oob_tcp_keepalive_//p | sort")
        self.assertEqual(self.run_sh().stdout, "intvl=2\nprobes=3\ntime=5\n")
        self.assertEqual(self.run_sh(OMPI_MCA_oob_tcp_keepalive_time="9").stdout, "intvl=2\nprobes=3\ntime=9\n")

    def test_a_host_that_mpirun_has_lost_is_named_in_the_last_line(self):
        self.build("cpu")
        line = "-" * 74
        self.program("bin/mpirun", f"""cat >&2 <<END
error: what a rank says
{line}
ORTE has lost communication with a remote daemon.

  HNP daemon   : [[7615,0],0] on node first
  Remote daemon: [[7615,0],1] on node second
{line}
END
exit 205""")
        done = self.run_sh(MPIRUN_OPTIONS="--hostfile hosts")
        self.assertEqual((done.returncode, done.stderr.splitlines()),
                         (3, ["error: what a rank says",
                              "error: the connection to second is lost: the host or its link is down"]))

    def test_of_mpiruns_own_words_about_hosts_only_those_that_say_something_new_are_shown(self):
        self.build("cpu")
        line = "-" * 74
        self.program("bin/mpirun", f"""cat >&2 <<END
mpirun: Forwarding signal 10 to job
{line}
There are not enough slots.
{line}
error: a bad key
{line}
mpirun detected that one or more processes exited with non-zero status
{line}
{line}
mpirun noticed that process rank 1 on node second exited on signal 9 (Killed).
{line}
no newline at the end
END
printf 'of this' >&2
exit 2""")
        done = self.run_sh(MPIRUN_OPTIONS="--hostfile hosts")
        self.assertEqual((done.returncode, done.stderr.splitlines()),
                         (2, ["There are not enough slots.", "", "error: a bad key",
                              "mpirun noticed that process rank 1 on node second exited on signal 9 (Killed).", "",
                              "no newline at the end", "of this"]))


class Bundle(Tree):
    def test_what_is_packed_starts_where_it_is_unpacked(self):
        with open(os.path.join(ROOT, "launch/acceptance/programs.txt"), encoding="utf-8") as file:
            programs = file.read().split()
        os.makedirs(os.path.join(self.folder, "build/cuda/bin"))
        for program in programs:
            shutil.copy("/bin/echo", os.path.join(self.folder, "build/cuda/bin", program))
        done = self.start(["launch/bundle.sh", "all.tar.xz"], XZ_OPT="-0")
        self.assertEqual(done.returncode, 0, done.stderr)
        there = os.path.join(self.folder, "there")
        os.makedirs(there)
        subprocess.run(["tar", "-xf", os.path.join(self.folder, "all.tar.xz"), "-C", there], check=True)
        self.assertEqual(sorted(os.listdir(os.path.join(there, "bin"))), sorted(programs))
        code = ("import libraries, os, subprocess, sys\n"
                "env, missing = libraries.path_for('there/bin', ['dlrm-train'])\n"
                "assert not missing and env['OPAL_PREFIX'] == 'there/mpi', (env, missing)\n"
                "env = {**os.environ, **env, 'OPAL_PREFIX': os.path.abspath('there/mpi')}\n"
                "sys.exit(subprocess.run(['mpirun', '--oversubscribe', '-np', '2', 'there/bin/dlrm-train', 'hello'],\n"
                "                        env=env).returncode)\n")
        done = self.start([sys.executable, "-c", code], PYTHONPATH="launch/acceptance", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.assertEqual((done.returncode, done.stdout), (0, "hello\nhello\n"), done.stderr)

    def test_what_is_not_built_is_named(self):
        done = self.start(["launch/bundle.sh", "all.tar.xz"])
        self.assertEqual(done.returncode, 2)
        self.assertIn("launch/build.sh cuda dlrm-train", done.stderr)


class Slurm(Tree):
    def setUp(self):
        super().setUp()
        self.srun("none pmi2 pmix pmix_v4")
        self.program("bin/scontrol", 'echo "scontrol $@"')
        self.program("bin/dlrm-preflight")
        self.program("bin/dlrm-train")

    def srun(self, plugins):
        self.program("bin/srun", f'[ "$1" = --mpi=list ] && {{ echo "MPI plugin types are {plugins}" >&2; exit; }}\n'
                                 'echo "srun $@"\nwhile [[ "$1" == -* ]]; do shift; done\nexec "$@"')

    def submit(self, script, *arguments, config="config.yaml", **variables):
        return self.start(["bash", f"launch/slurm/{script}.sbatch", config, *arguments], SLURM_JOB_ID="7",
                          SLURM_CPUS_PER_TASK="3", SLURM_NTASKS="4", **variables)

    def test_a_gpu_job_looks_at_its_nodes_and_then_trains(self):
        done = self.submit("gpu", "--set", "train.steps=5")
        self.assertEqual(done.returncode, 0, done.stderr)
        first, second = done.stdout.splitlines()
        self.assertTrue(first.endswith("dlrm-preflight --need-gpu"), first)
        self.assertTrue(second.endswith("dlrm-train config.yaml --set train.steps=5 --device cuda --resume"), second)
        self.assertIn("--cpus-per-task=3", second)

    def threads_told(self, script="cpu", plugins="task/affinity,task/cgroup", **variables):
        """Where the ranks of a job are told to run threads, in a Slurm with these plugins."""
        self.program("bin/dlrm-train", 'echo "threads=$OMP_NUM_THREADS places=$OMP_PLACES bind=$OMP_PROC_BIND" >told')
        self.program("bin/scontrol", f'[ "$*" = "show config" ] && printf "TaskEpilog = (null)\nTaskPlugin   = {plugins}\n'
                                     'TaskPluginParam = (null type)\n"')
        self.write("trials/trial_000/arguments", "config.yaml\n")
        variables = {**UNBOUND, "SLURM_ARRAY_TASK_ID": "0", **variables}
        self.submit(script, config="trials" if script == "sweep" else "config.yaml", **variables)
        with open(os.path.join(self.folder, "told"), encoding="utf-8") as file:
            return file.read().strip()

    def test_threads_get_the_cores_to_which_slurm_binds_their_rank(self):
        for script in ("cpu", "gpu", "sweep"):
            self.assertEqual(self.threads_told(script), "threads= places=cores bind=close", script)

    def test_ranks_that_slurm_does_not_bind_have_as_many_threads_as_cpus(self):
        for script in ("cpu", "gpu", "sweep"):
            for plugins in ("task/none", "task/cgroup"):
                self.assertEqual(self.threads_told(script, plugins), "threads=3 places= bind=", script)

    def test_the_environment_decides_about_threads_first(self):
        for script in ("cpu", "gpu", "sweep"):
            self.assertEqual(self.threads_told(script, OMP_NUM_THREADS="2"), "threads=2 places= bind=", script)
            self.assertEqual(self.threads_told(script, OMP_PLACES="threads"), "threads= places=threads bind=", script)
            self.assertEqual(self.threads_told(script, OMP_PROC_BIND="spread"), "threads= places= bind=spread", script)

    def test_a_gpu_job_ends_where_the_preflight_fails(self):
        self.program("bin/dlrm-preflight", "exit 2")
        done = self.submit("gpu")
        self.assertEqual(done.returncode, 2)
        self.assertNotIn("dlrm-train", done.stdout)

    def test_a_stopped_job_is_queued_again(self):
        self.program("bin/dlrm-train", "exit 130")
        for script in ("cpu", "gpu"):
            done = self.submit(script)
            self.assertEqual(done.returncode, 130)
            self.assertIn("scontrol requeue 7", done.stdout)

    def test_a_task_of_an_array_is_queued_again_alone(self):
        self.program("bin/dlrm-train", "exit 130")
        for script in ("cpu", "gpu"):
            done = self.submit(script, SLURM_ARRAY_JOB_ID="7", SLURM_ARRAY_TASK_ID="0")
            self.assertIn("scontrol requeue 7_0\n", done.stdout)

    def test_a_request_before_the_start_queues_the_job_again(self):
        for code in (138, 143):
            self.program("bin/dlrm-train", f"exit {code}")
            for script in ("cpu", "gpu"):
                self.assertIn("scontrol requeue 7\n", self.submit(script).stdout)
        self.program("bin/dlrm-preflight", "exit 143")
        done = self.submit("gpu")
        self.assertIn("scontrol requeue 7\n", done.stdout)
        self.assertNotIn("dlrm-train", done.stdout)

    def test_without_pmix_nothing_is_started(self):
        self.srun("none pmi2")
        for script in ("cpu", "gpu"):
            done = self.submit(script)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, "^error: this srun has no PMIx .*: mpirun -np 4\n$")
        self.program("build/cpu/bin/dlrm-preflight")
        done = self.start(["launch/preflight.sh"], SLURM_JOB_ID="7")
        self.assertEqual(done.returncode, 2)
        self.assertIn("failed  mpi           this srun has no PMIx", done.stdout)

    def test_a_requeued_job_continues_its_log(self):
        for script in ("cpu", "gpu"):
            with open(os.path.join(self.folder, f"launch/slurm/{script}.sbatch"), encoding="utf-8") as file:
                self.assertIn("#SBATCH --open-mode=append\n", file.read())

    def test_a_failed_job_is_not(self):
        self.program("bin/dlrm-train", "exit 3")
        for script in ("cpu", "gpu"):
            done = self.submit(script)
            self.assertEqual(done.returncode, 3)
            self.assertNotIn("scontrol", done.stdout)


if __name__ == "__main__":
    unittest.main()
