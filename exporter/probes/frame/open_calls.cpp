#include "exporter/probes/frame/open_calls.h"

#include <string_view>

#include "exporter/base/text.h"

namespace gpusnoop::probes {

OpenCall open_call_of(const ProcessIdentity &process, const open_call &record) {
    OpenCall call;
    static_cast<processes::ProcessNames &>(call) = process;
    call.began_ns = record.started_ns;
    call.pid = process.key.tgid;
    call.tid = record.tid;
    // A character of the name can become one of three bytes.
    call.thread = to_valid_utf8({record.comm, sizeof(record.comm)}, sizeof(record.comm) * 3);
    call.pod_uid = process.pod_uid;
    call.sp = record.sp;
    return call;
}

}  // namespace gpusnoop::probes
