// The CUDA calls of `lives`.
#pragma once

#include <cstddef>
#include <string>

namespace calls {

void allocate(std::size_t bytes);
void pin(std::size_t bytes);  // of the host's memory
void free_first();            // of those that were allocated
void choose_device(int device);

// A thread makes a call of this name, "cudaMemset" for example, and ends.
void in_thread(const std::string &function);
// The same, but the call does not return: the thread is inside of it when this returns.
void hang(const std::string &function);

// Sets memory, which it allocates and frees again.
void use_memory();
// Loads this copy of the runtime, allocates and frees memory by its functions, and unloads it.
void load_and_unload(const std::string &path, int times);

}  // namespace calls
