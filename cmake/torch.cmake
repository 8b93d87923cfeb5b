# hopfeed_torch: LibTorch as it lies inside the torch wheel of HOPFEED_PYTHON, so that C++ and Python trainers share one
# installation. The wheel's own CMake package is not used: it demands a CUDA toolkit (and a GPU, unless
# TORCH_CUDA_ARCH_LIST is set) because the wheel was built with CUDA, although nothing here is compiled for CUDA. Its
# place is taken from torch.utils.cmake_prefix_path all the same, and the libraries are linked one by one: programs on
# the CPU need libtorch_cpu and libc10 alone and start without loading the CUDA libraries.
include_guard(GLOBAL)

set(HOPFEED_TORCH_VERSIONS 2.11.0 2.13.0)   # the first is the pinned one, which CI builds; the others were built and tested by hand
set(_python ${HOPFEED_PYTHON})
if(NOT _python)
  set(_python ${PROJECT_SOURCE_DIR}/.venv/bin/python)
endif()

if(NOT HOPFEED_TORCH_FOUND_IN STREQUAL "${_python}")   # importing torch takes seconds: once per build folder
  execute_process(
    COMMAND ${_python} -c "import torch; print(torch.__version__.split('+')[0], torch.utils.cmake_prefix_path, sep=';')"
    OUTPUT_VARIABLE _answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE _status)
  if(NOT _status EQUAL 0)
    message(FATAL_ERROR "No torch in ${_python}. Run scripts/setup.sh, or name another Python with -DHOPFEED_PYTHON=..., "
                        "or build without the trainer: -DHOPFEED_TORCH=OFF")
  endif()
  list(GET _answer 0 _version)
  list(GET _answer 1 _prefix)
  if(NOT _version IN_LIST HOPFEED_TORCH_VERSIONS)
    list(GET HOPFEED_TORCH_VERSIONS 0 _pinned)
    list(JOIN HOPFEED_TORCH_VERSIONS " and " _known)
    message(FATAL_ERROR "${_python} has torch ${_version}, but the trainer is written for ${_known} (c10d's C++ interface changes "
                        "between versions): pip install torch==${_pinned}")
  endif()
  cmake_path(SET _root NORMALIZE "${_prefix}/../..")   # .../site-packages/torch/share/cmake -> .../site-packages/torch
  string(REGEX REPLACE "/$" "" _root "${_root}")
  set(HOPFEED_TORCH_ROOT ${_root} CACHE INTERNAL "the torch package")
  set(HOPFEED_TORCH_VERSION ${_version} CACHE INTERNAL "its version")
  set(HOPFEED_TORCH_FOUND_IN ${_python} CACHE INTERNAL "the Python it was found in")
endif()
message(STATUS "LibTorch ${HOPFEED_TORCH_VERSION}: ${HOPFEED_TORCH_ROOT}")

find_path(GLOO_INCLUDE gloo/algorithm.h)   # headers alone: the code is inside libtorch_cpu
if(NOT GLOO_INCLUDE)
  hopfeed_missing("Gloo's headers, which the torch wheel lacks," libgloo-dev)
endif()

# The wheel's include folder also holds headers of libraries that Torch was built with, {fmt} of another version among
# them: units that include Torch do without {fmt}.
add_library(hopfeed_torch INTERFACE)
set(HOPFEED_TORCH_INCLUDE ${HOPFEED_TORCH_ROOT}/include ${HOPFEED_TORCH_ROOT}/include/torch/csrc/api/include ${GLOO_INCLUDE}
  CACHE INTERNAL "what a unit with Torch includes")
# The installed package adds them by itself (hopfeedConfig.cmake.in): CMake exports no path inside the sources, and .venv is one.
target_include_directories(hopfeed_torch SYSTEM INTERFACE "$<BUILD_INTERFACE:${HOPFEED_TORCH_INCLUDE}>")
target_compile_definitions(hopfeed_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
# -fopenmp: at::parallel_for is serial without it.
target_compile_options(hopfeed_torch INTERFACE -fopenmp)
target_link_libraries(hopfeed_torch INTERFACE
  ${HOPFEED_TORCH_ROOT}/lib/libtorch_cpu.so ${HOPFEED_TORCH_ROOT}/lib/libc10.so ${HOPFEED_TORCH_ROOT}/lib/libgomp.so.1)

# hopfeed_torch_cuda: what ProcessGroupNCCL needs. NCCL's and CUDA's headers lie in wheels that torch depends on or that
# scripts/requirements.txt adds; a CUDA toolkit of the machine has them too. Only the module that is loaded for
# --backend nccl links it.
cmake_path(GET HOPFEED_TORCH_ROOT PARENT_PATH _packages)
file(GLOB _cuda_include ${_packages}/nvidia/cu*/include)
set(_nccl_include ${_packages}/nvidia/nccl/include)
find_path(HOPFEED_CUDA_CRT_INCLUDE crt/host_config.h HINTS ${_cuda_include} PATHS $ENV{CUDA_HOME}/include /usr/local/cuda/include)
find_path(HOPFEED_CUDA_CCCL_INCLUDE nv/target HINTS ${_cuda_include} PATHS $ENV{CUDA_HOME}/include /usr/local/cuda/include)
set(HOPFEED_NCCL OFF)
if(EXISTS ${_nccl_include}/nccl.h AND EXISTS ${HOPFEED_TORCH_ROOT}/lib/libtorch_cuda.so AND _cuda_include
   AND HOPFEED_CUDA_CRT_INCLUDE AND HOPFEED_CUDA_CCCL_INCLUDE)
  set(HOPFEED_NCCL ON)
  add_library(hopfeed_torch_cuda INTERFACE)
  target_include_directories(hopfeed_torch_cuda SYSTEM INTERFACE
    ${_nccl_include} ${_cuda_include} ${HOPFEED_CUDA_CRT_INCLUDE} ${HOPFEED_CUDA_CCCL_INCLUDE})
  target_compile_definitions(hopfeed_torch_cuda INTERFACE USE_C10D_NCCL)
  target_link_libraries(hopfeed_torch_cuda INTERFACE hopfeed_torch
    ${HOPFEED_TORCH_ROOT}/lib/libtorch_cuda.so ${HOPFEED_TORCH_ROOT}/lib/libc10_cuda.so)
else()
  message(STATUS "NCCL: no (a CUDA toolkit's headers are missing); trainers use Gloo")
endif()
