// Counts into the process's truth file, or into nothing readable when STANDIN_TRUTH_DIR is unset.

#pragma once

#include "truth.h"

#include <cstdint>

#include "cudart/cudart.h"

namespace standin {

void count_entry(truth::Function function, bool outermost);
void count_result(truth::Function function, bool outermost, int error);
void count_return_without_entry();

void count_allocation(truth::MemoryKind kind, std::uint64_t bytes);
void count_free(truth::MemoryKind kind, std::uint64_t bytes);
void count_unknown_free(truth::MemoryKind kind);
void count_empty_allocation();
void count_empty_free();
void count_copy(truth::CopyKind kind, truth::CopyMode mode, std::uint64_t bytes);
void count_launch(const char *kernel, Dim3 grid, Dim3 block);

void lock_truth_for_fork();
void unlock_truth_after_fork();
// The next count opens a file of its own.
void forget_truth_of_parent();

}  // namespace standin
