// Lists the BPF programs that are loaded on this machine, with how many instructions the verifier
// looked at before it took each: its limit is a million. Fails when there are none, and when one of
// them is past the limit that is given.
//   complexity [LIMIT]
#include <bpf/bpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Program {
    std::string name;
    std::uint32_t verified = 0;
    std::uint32_t instructions = 0;
    std::uint32_t machine_code = 0;  // bytes
};

std::vector<Program> loaded_programs() {
    std::vector<Program> programs;
    for (std::uint32_t id = 0; bpf_prog_get_next_id(id, &id) == 0;) {
        const int fd = bpf_prog_get_fd_by_id(id);
        if (fd < 0) {
            continue;  // gone since
        }
        bpf_prog_info info{};
        std::uint32_t size = sizeof(info);
        if (bpf_prog_get_info_by_fd(fd, &info, &size) == 0) {
            programs.push_back({info.name, info.verified_insns,
                                info.xlated_prog_len / static_cast<std::uint32_t>(sizeof(bpf_insn)),
                                info.jited_prog_len});
        }
        ::close(fd);
    }
    std::ranges::sort(programs, {}, &Program::name);
    return programs;
}

}  // namespace

int main(int count, char **arguments) {
    const std::uint32_t limit =
        count > 1 ? static_cast<std::uint32_t>(std::strtoul(arguments[1], nullptr, 10))
                  : UINT32_MAX;
    const std::vector<Program> programs = loaded_programs();
    if (programs.empty()) {
        std::fprintf(stderr, "complexity: no BPF programs are loaded, or not visible: %s\n",
                     std::strerror(errno));
        return 1;
    }
    int status = 0;
    std::printf("%-16s %10s %12s %12s\n", "program", "verified", "instructions", "machine code");
    for (const Program &program : programs) {
        const bool is_past = program.verified > limit;
        std::printf("%-16s %10u %12u %12u%s\n", program.name.c_str(), program.verified,
                    program.instructions, program.machine_code, is_past ? "  past the limit" : "");
        status = is_past ? 1 : status;
    }
    return status;
}
