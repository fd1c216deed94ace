// Readable names of CUDA kernels, from the host-side symbols that nvcc and clang make for them. The
// symbols come from files that other users control.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gpusnoop::symbols {

// The longest name that kernel_name() gives, and the longest template argument list in it, in
// bytes.
inline constexpr std::size_t max_kernel_name_bytes = 120;
inline constexpr std::size_t max_template_argument_bytes = 40;

// The kernel that a host-side symbol stands for, as a label: namespaces and the name, without
// return type and parameters; short template arguments are kept, others become <...>. Never empty
// for a symbol that is not, valid UTF-8, at most max_kernel_name_bytes long (a longer name keeps
// its end). What cannot be read as a mangled name is returned as it is.
//   _Z3addPfPKfi                -> add
//   _Z5scaleIfEvPT_i            -> scale<float>
//   _ZN7cutlass6KernelI...      -> cutlass::Kernel<...>
//   _Z26__device_stub__Z3addPfPKfiPfPKfi -> add
//   plain_c_kernel              -> plain_c_kernel
[[nodiscard]] std::string kernel_name(std::string_view symbol);

// The number of the kernel's parameters, if its mangled name shows it.
[[nodiscard]] std::optional<std::size_t> kernel_parameters(std::string_view symbol);

// The suffix of nvcc 13's launch handles, for ElfFile::find_by_suffix().
inline constexpr std::string_view launch_handle_ending = "E8__handle";

// nvcc 13 passes cudaLaunchKernel not a function but a handle, which it keeps in a static variable
// of the kernel's host stub. From the symbol of that variable to the mangled name of the kernel:
//   _ZZ26__device_stub__Z3addPfPKfiPfPKfiE8__handle -> _Z3addPfPKfi
// Empty for any other symbol. The result is a part of `symbol`.
[[nodiscard]] std::optional<std::string_view> kernel_of_launch_handle(std::string_view symbol);

}  // namespace gpusnoop::symbols
