// Every setting of a configuration as text, by its key: what two configurations differ in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop::config {

class Values {
public:
    // `key` is the dotted path. The same value has the same text, whether the file says it or not.
    void set(std::string key, std::string text);
    // A change of this key takes effect while the exporter runs.
    void set_live(std::string_view key);
    // The command line overrides this key: the file does not matter.
    void erase(std::string_view key);

    // In the order in which they were read.
    [[nodiscard]] std::vector<std::string> keys() const;

    // It says nothing that the settings themselves do not say.
    bool operator==(const Values & /*other*/) const { return true; }

private:
    struct Entry {
        std::string key;
        std::string text;
        bool is_live = false;
    };

    [[nodiscard]] const Entry *find(std::string_view key) const;

    friend std::vector<std::string> keys_for_restart(const Values &started, const Values &wanted);

    std::vector<Entry> entries_;
};

// The keys of which `wanted` says something else than `started`, with which the exporter was
// started, and that only a restart brings into effect.
[[nodiscard]] std::vector<std::string> keys_for_restart(const Values &started,
                                                        const Values &wanted);

}  // namespace gpusnoop::config
