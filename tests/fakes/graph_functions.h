// The functions of streams' captures and of graphs that bpf/cuda/functions.h does not have. One
// that comes to stand there leaves here: the enumerators of truth.h have each name once.

#pragma once

#define STANDIN_GRAPH_RUNTIME_FUNCTIONS(X) \
    X(cudaStreamIsCapturing)               \
    X(cudaStreamIsCapturing_ptsz)          \
    X(cudaStreamGetCaptureInfo)            \
    X(cudaStreamGetCaptureInfo_ptsz)       \
    X(cudaStreamGetCaptureInfo_v2)         \
    X(cudaStreamGetCaptureInfo_v2_ptsz)    \
    X(cudaStreamGetCaptureInfo_v3)         \
    X(cudaStreamGetCaptureInfo_v3_ptsz)    \
    X(cudaThreadExchangeStreamCaptureMode) \
    X(cudaStreamQuery)                     \
    X(cudaStreamQuery_ptsz)                \
    X(cudaLaunchHostFunc)                  \
    X(cudaLaunchHostFunc_ptsz)             \
    X(cudaGraphAddHostNode)                \
    X(cudaGraphAddEmptyNode)               \
    X(cudaGraphAddEventRecordNode)         \
    X(cudaGraphAddEventWaitNode)           \
    X(cudaGraphAddMemAllocNode)            \
    X(cudaGraphAddMemFreeNode)             \
    X(cudaGraphGetNodes)                   \
    X(cudaGraphNodeFindInClone)            \
    X(cudaGraphNodeGetType)                \
    X(cudaGraphNodeGetEnabled)             \
    X(cudaGraphUpload)                     \
    X(cudaGraphUpload_ptsz)                \
    X(cudaEventQuery)

#define STANDIN_GRAPH_DRIVER_FUNCTIONS(X) \
    X(cuStreamIsCapturing)                \
    X(cuStreamIsCapturing_ptsz)           \
    X(cuStreamGetCaptureInfo_v2)          \
    X(cuStreamGetCaptureInfo_v2_ptsz)     \
    X(cuStreamGetCaptureInfo_v3)          \
    X(cuStreamGetCaptureInfo_v3_ptsz)     \
    X(cuThreadExchangeStreamCaptureMode)  \
    X(cuGraphAddHostNode)                 \
    X(cuGraphAddEmptyNode)                \
    X(cuGraphAddEventRecordNode)          \
    X(cuGraphAddEventWaitNode)            \
    X(cuGraphAddMemAllocNode)             \
    X(cuGraphAddMemFreeNode)              \
    X(cuGraphGetNodes)                    \
    X(cuGraphNodeFindInClone)             \
    X(cuGraphNodeGetType)                 \
    X(cuGraphNodeGetEnabled)              \
    X(cuGraphUpload)                      \
    X(cuGraphUpload_ptsz)                 \
    X(cuStreamQuery)                      \
    X(cuStreamQuery_ptsz)                 \
    X(cuLaunchHostFunc)                   \
    X(cuLaunchHostFunc_ptsz)              \
    X(cuEventQuery)
