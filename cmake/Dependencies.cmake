# SPDX-License-Identifier: Apache-2.0
# Every outside package, found once. Versions are pinned in tools/requirements.txt (PyPI),
# tools/packages.txt (Debian) and tools/sources.txt (built from source); tools/setup installs them.
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter Development.Module)

# MLIR and LLVM: shared libraries only; static MLIR archives beside libMLIR would double type ids.
set(MLIR_LINK_MLIR_DYLIB ON)
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
separate_arguments(llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
# LLVM's Support without MLIR, for code that knows no programs.
add_library(sojourn_llvm INTERFACE)
target_include_directories(sojourn_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_compile_definitions(sojourn_llvm INTERFACE ${llvm_definitions})
target_link_libraries(sojourn_llvm INTERFACE LLVM)

add_library(sojourn_mlir INTERFACE)
target_include_directories(sojourn_mlir SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS})
target_link_libraries(sojourn_mlir INTERFACE MLIR sojourn_llvm)

# libtorch from the wheel's own folder: find_package(Torch) would ask for kineto and CUDA.
execute_process(COMMAND ${Python3_EXECUTABLE} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
                OUTPUT_VARIABLE torch_root OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE torch_missing)
if(torch_missing)
  message(FATAL_ERROR "no torch in ${Python3_EXECUTABLE}; run tools/setup")
endif()
add_library(sojourn_torch INTERFACE)
target_include_directories(sojourn_torch SYSTEM INTERFACE ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
target_link_libraries(sojourn_torch INTERFACE
  ${torch_root}/lib/libtorch.so ${torch_root}/lib/libtorch_cpu.so ${torch_root}/lib/libc10.so)
target_link_options(sojourn_torch INTERFACE -Wl,-rpath,${torch_root}/lib)
add_library(sojourn_torch_python INTERFACE)
target_include_directories(sojourn_torch_python SYSTEM INTERFACE ${Python3_INCLUDE_DIRS})
target_link_libraries(sojourn_torch_python INTERFACE sojourn_torch ${torch_root}/lib/libtorch_python.so)

# Apache Arrow C++ from the pyarrow wheel.
execute_process(COMMAND ${Python3_EXECUTABLE} -c "import importlib.util as u; print(u.find_spec('pyarrow').submodule_search_locations[0])"
                OUTPUT_VARIABLE arrow_root OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE arrow_missing)
if(arrow_missing)
  message(FATAL_ERROR "no pyarrow in ${Python3_EXECUTABLE}; run tools/setup")
endif()
file(GLOB arrow_library ${arrow_root}/libarrow.so.*)
file(GLOB parquet_library ${arrow_root}/libparquet.so.*)
add_library(sojourn_arrow INTERFACE)
target_include_directories(sojourn_arrow SYSTEM INTERFACE ${arrow_root}/include)
target_link_libraries(sojourn_arrow INTERFACE ${arrow_library} ${parquet_library})
target_link_options(sojourn_arrow INTERFACE -Wl,-rpath,${arrow_root})

# nng with TLS: static, from the environment that tools/setup made, never the system's (an older one
# stops listening after a client that only connects). The frontend's library and what links the owner
# each hold a copy of their own, so its names must not leave the file they are linked into: two copies
# that shared half of their state would fail in ways that nobody could read.
execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.prefix)"
                OUTPUT_VARIABLE environment_root OUTPUT_STRIP_TRAILING_WHITESPACE)
set(nng_root ${environment_root}/nng)
set(nng_archives libnng.a libmbedtls.a libmbedx509.a libmbedcrypto.a)
add_library(sojourn_nng INTERFACE)
foreach(archive ${nng_archives})
  if(NOT EXISTS ${nng_root}/lib/${archive})
    message(FATAL_ERROR "no ${archive} in ${nng_root}/lib; run tools/setup")
  endif()
  target_link_libraries(sojourn_nng INTERFACE ${nng_root}/lib/${archive})
endforeach()
list(JOIN nng_archives ":" hidden_archives)
target_link_options(sojourn_nng INTERFACE -Wl,--exclude-libs,${hidden_archives})
# Apart: three files see the headers, and many more are linked.
add_library(sojourn_nng_headers INTERFACE)
target_include_directories(sojourn_nng_headers SYSTEM INTERFACE ${nng_root}/include)

find_program(FLATC_EXECUTABLE flatc REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
if(SOJOURN_TESTS)
  find_package(GTest REQUIRED)
endif()
if(SOJOURN_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
