// How `top` proves to an exporter who asks, and how the exporter proves who answers.
#pragma once

#include <string>

#include "exporter/base/result.h"

namespace gpusnoop::top {

struct Access {
    std::string login_file = {};  // empty: no login; else a file of "USER:PASSWORD"
    bool netrc = false;           // the login for this host from ~/.netrc
    std::string ca_file = {};     // authorities in PEM; empty: those of the system
    std::string cert_file = {};   // of the client, in PEM; empty: no certificate
    std::string key_file = {};    // of cert_file; empty: it is in cert_file
    bool skip_verify = false;     // takes any certificate
};

// The first line of the file, "USER:PASSWORD". Errors name the file and never what is in it.
[[nodiscard]] Result<std::string> read_login(const std::string &file);

}  // namespace gpusnoop::top
