# SPDX-License-Identifier: Apache-2.0
# Warnings, optimisation and ccache: one place for every target of ours.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
# Clang writes the time into its precompiled headers unless told not to; ccache would never know one again.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
endif()

# GCC collects garbage at small heaps where memory limits are set; a tenth of the time, for 100 MB per process.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(--param=ggc-min-expand=300 --param=ggc-min-heapsize=1048576)
endif()

# One kind of code for libraries and programs, so that one precompiled header serves both.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})

# sojourn_reuse_headers(target...): with the precompiled header of sojourn_dialect, MLIR's headers and none of ours.
function(sojourn_reuse_headers)
  foreach(target ${ARGN})
    target_precompile_headers(${target} REUSE_FROM sojourn_dialect)
  endforeach()
endfunction()

# Linked by every target of ours. Foreign headers are SYSTEM, so warnings are about our code.
add_library(sojourn_options INTERFACE)
target_include_directories(sojourn_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_options(sojourn_options INTERFACE -Wall -Wextra -Wno-unused-parameter)
if(SOJOURN_WERROR)
  target_compile_options(sojourn_options INTERFACE -Werror)
endif()
