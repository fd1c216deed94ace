// The guests of tests/vm, and what only they have: see tests/vm/README.md.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace harness {

// Whether this runs in a guest: its CPUs stand still at times, and everything takes long.
inline bool in_guest() {
    return std::getenv("GPUSNOOP_VM") != nullptr;
}

// The module of tests/vm/module, loaded as long as this lives.
class TestModule {
public:
    TestModule();
    ~TestModule();
    TestModule(const TestModule &) = delete;
    TestModule &operator=(const TestModule &) = delete;

    // The module's source lists the commands.
    void command(const std::string &text) const;
    struct Answer {
        int result = 0;
        std::uint32_t value = 0;
    };
    // The value of the last read of a device.
    [[nodiscard]] Answer answer() const;
};

}  // namespace harness
