// Counts into the process's truth file, or into nothing readable when STANDIN_TRUTH_DIR is unset.

#pragma once

#include "cuda_types.h"
#include "truth.h"

#include <cstdint>

namespace standin {

void count_entry(truth::Function function, bool outermost);
void count_result(truth::Function function, bool outermost, int error);
void count_return_without_entry();

void count_allocation(Device device, truth::MemoryKind kind, std::uint64_t bytes);
void count_free(Device device, truth::MemoryKind kind, std::uint64_t bytes);
void count_untracked_free(Device device, truth::MemoryKind kind);
void count_freed_by_reset(Device device, truth::MemoryKind kind, std::uint64_t bytes);
void count_empty_allocation(Device device, truth::MemoryKind kind);
void count_empty_free();
void count_copy(Device device, truth::CopyKind kind, truth::CopyMode mode, std::uint64_t bytes);
void count_set(Device device, truth::CopyMode mode, std::uint64_t bytes);
void count_launch(Device device, truth::LaunchedBy by, const char *kernel, Dim3 grid, Dim3 block);
void count_captured(Device device, truth::Captured what);
void count_graph_launch(Device device);
void count_synchronization(Device device);
void count_elapsed(float milliseconds);

void lock_truth_for_fork();
void unlock_truth_after_fork();
// The next count opens a file of its own.
void forget_truth_of_parent();

}  // namespace standin
