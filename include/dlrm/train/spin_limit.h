#pragma once

namespace dlrm {

/// Lets OpenMP's threads wait actively for about 0.07 ms only, or 2 µs for each thread if that is
/// more, and then sleep. By default they spin for milliseconds. If the machine has other work, they
/// take that time from the threads that they wait for, and small batches become many times slower.
/// If other programs keep half of the machine's cores busy when a single process starts, its
/// threads sleep at once.
///
/// The OpenMP library reads its settings before main. So this starts the program again, once, in
/// the same process and with GOMP_SPINCOUNT set. Call it first in main. Does nothing if the user
/// has set GOMP_SPINCOUNT or OMP_WAIT_POLICY.
void limit_spinning(char** argv);

}  // namespace dlrm
