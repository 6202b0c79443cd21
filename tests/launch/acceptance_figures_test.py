#!/usr/bin/env python3
"""The figures of launch/gpu_acceptance.sh: which models and sizes it measures, and how it reads what programs write."""
import os
import unittest

from acceptance_test import ROOT, InAFolder

from commands import Failure
import benchmarks
import kernels
import profiles
from proofs import compare, compare_bf16


class Models(InAFolder):
    def test_dcnv2_has_the_rows_that_the_card_has_room_for_and_the_goal_of_the_larger_card(self):
        for memory, rows in (("143771 MiB", 20000000), ("81559 MiB", 12000000)):
            session = self.session()
            session.facts["card"] = {"name": "a card", "memory.total": memory}
            self.assertEqual(benchmarks.dcnv2_values(session, "uniform")["model.tables.C21.rows"], rows)
            session.records.append({"commands": [], "rows": []})
            self.program("dlrm-train", """
for word; do case $word in output.directory=*) folder=${word#*=} ;; esac; done
mkdir -p "$folder"
for step in 1 2 3 4; do echo '{"loss": 1, "samples_per_second": 3e6}'; done >"$folder/metrics.jsonl"
""")
            (what, measured, goal, met), = benchmarks.dcnv2(session, "uniform")
            self.assertEqual((what, goal, met), ("dcnv2-uniform", ">= 2.12M samples/s", True) if rows == 20000000
                             else ("dcnv2-uniform", "", None))
            self.assertIn(f"3.000M samples/s, 18.43 ms a step, 5 tables of {rows // 1000000}M rows on a card", measured)


class Figures(InAFolder):
    """dlrm-bench and ncu as they write, and as they break."""

    def bench(self, ending):
        self.program("dlrm-bench", """
while [ "$1" != --output ]; do [ "$1" = kernels ] || true; shift; done
out=$2
row() { echo '{"name": "'"$1"'", "milliseconds": 2, "share": 0.5}' >>$out; }
echo '{"device": "cuda", "sizes": {"batch": 2}}' >$out
echo '{"limit": "copy", "gb_per_second": 3000}' >>$out
row "lookup fp32, uniform ids"
""" + ending)

    def test_rows_before_a_crash_and_before_a_hang_are_kept(self):
        for ending in ("printf '{\"name\":' >>$out; kill -SEGV $$", "sleep 600"):
            session = self.session()
            self.bench(ending)
            session.step("kernels", "kernels", 2, kernels.all_at_once)
            record = session.records[0]
            self.assertEqual(record["status"], "failed")
            self.assertEqual([r["what"] for r in record["rows"]], ["limit: copy", "lookup fp32, uniform ids"])
            self.assertEqual(session.facts["kernels"]["limits"], {"copy": 3000})

    def test_what_failed_in_one_process_is_timed_kind_by_kind(self):
        session = self.session()
        self.bench('[[ "$*" == *"--only dot"* ]] && exit 3; row "$4"; exit 0')
        session.step("kernels-apart", "apart", 40, kernels.apart)
        record = session.records[0]
        self.assertEqual((record["status"], record["detail"]), ("failed", "failed: dot"))
        self.assertEqual(len(record["commands"]), len(kernels.KINDS))
        session.facts["kernels"]["complete"] = True
        session.step("again", "apart", 40, kernels.apart)
        self.assertEqual(session.records[1]["status"], "skipped")

    def test_the_library_s_log_tells_algorithms_and_refusals(self):
        matrices = "Adesc=[type=R_16BF rows=512 cols=64 ld=512] Bdesc=[type=R_16BF rows=512 cols=8 ld=512] " \
                   "Cdesc=[type=R_16BF rows=64 cols=8 ld=64] Ddesc=[type=R_16BF rows=64 cols=8 ld=64] "
        trace = "[today][cublasLt][7][Trace][cublasLtTSTMatmul] A=0X1 " + matrices + \
                "computeDesc=[computeType=COMPUTE_32F scaleType=R_32F transa=OP_T epilogue=EPILOGUE_RELU_BIAS] algo=[algoId={}] x"
        api = "[today][cublasLt][7][Api][cublasLtMatmulAlgoGetHeuristic] " + matrices + "computeDesc=[epilogue=EPILOGUE_DRELU]"
        error = "[today][cublasLt][7][Error][cublasLtMatmulAlgoGetHeuristic] Failed to query heuristics."
        chosen, refused = profiles.read_library_log(["noise", trace.format(6), trace.format(9), api, error])
        shapes = "A 512 x 64 16bf, B 512 x 8 16bf, D 64 x 8 16bf, "
        self.assertEqual(chosen, {shapes + "transa=OP_T, RELU_BIAS": "algoId=9"})
        self.assertEqual(refused, {shapes + "DRELU": 1})

    def with_ncu(self, *names):
        """A stand-in for ncu that runs the program and says that it launched the kernels of these names."""
        metrics = (profiles.TIME, profiles.READ, profiles.WRITTEN)
        lines = [("ID", "Kernel Name", *metrics), ("", "", "ns", "byte", "byte")]
        lines += [(str(i), name, "2,000,000", "300", "100") for i, name in enumerate(names)]
        text = "\n".join(",".join(f'"{word}"' for word in line) for line in lines)
        self.program("ncu", f"""
[[ " $* " == *" --clock-control none "* ]] || exit 9
while [[ $1 != */dlrm-* ]]; do [ "$1" = --log-file ] && log=$2; shift; done
"$@" || exit
cat >$log <<'END'
==PROF== Connected
{text}
END
""")
        path = os.environ["PATH"]
        self.addCleanup(os.environ.update, PATH=path)
        os.environ["PATH"] = os.path.join(self.folder, "bin") + ":" + path

    def test_every_launch_of_a_step_is_recorded(self):
        self.with_ncu("fill", "bce_kernel", "update", "lookup", "bce_kernel")
        session = self.session()
        self.program("dlrm-train", "exit 0")
        session.step("launches", "launches", 20, profiles.launches)
        self.assertEqual(session.records[0]["rows"][0]["measured"], "6.000 ms in 3 launches", session.records[0])
        self.assertEqual([launch["kernel"] for launch in session.facts["launches"]], ["update", "lookup", "bce_kernel"])

    def test_counters_stand_beside_the_bytes_that_the_benchmark_counts(self):
        self.with_ncu("some_kernel")
        session = self.session()
        self.program("dlrm-bench", """
while [ "$1" != --only ]; do shift; done
only=$2
while [ "$1" != --output ]; do shift; done
[ "$only" = "copy blocks" ] && exit 3
echo '{"name": "'"$only"'", "bytes": 200}' >$2
""")
        session.step("counters", "counters", 20, profiles.counters)
        record = session.records[0]
        self.assertEqual((record["status"], record["detail"]), ("failed", "no counters of copy blocks"))
        self.assertEqual(len(record["rows"]), len(profiles.HEAVIEST))
        self.assertIn("2.00 times the 0.0 MB of the model", record["rows"][0]["measured"])


class Losses(unittest.TestCase):
    def test_fp32_losses_agree_within_the_tolerance(self):
        self.assertTrue(compare("a", [1.0, 2.0], [1.0, 2.00001], 1e-5)[3])
        for mine in ([1.0, 2.1], [1.0], [1.0, float("nan")], []):
            with self.assertRaises(Failure):
                compare("a", mine, [1.0, 2.0], 1e-5)

    def test_bf16_losses_are_no_further_from_fp32_than_the_cpu_s(self):
        wide, cpu = [1.0] * 4, [1.001, 1.01, 0.99, 1.01]
        self.assertTrue(compare_bf16("a", [1.001, 0.99, 1.01, 0.99], cpu, wide)[3])
        for mine in ([1.004, 1.01, 0.99, 1.01], [1.001, 1.03, 1.03, 1.03], [1.001, float("nan"), 1, 1], [1.001]):
            with self.assertRaises(Failure):
                compare_bf16("a", mine, cpu, wide)


if __name__ == "__main__":
    unittest.main()
