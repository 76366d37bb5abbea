# SPDX-License-Identifier: Apache-2.0
# sojourn_schema(target file.fbs...): C++ headers under <build>/<folder>/X_generated.h and Python
# accessors under <build>/python (package sojourn_wire).
function(sojourn_schema target)
  set(outputs)
  foreach(schema ${ARGN})
    get_filename_component(stem ${schema} NAME_WE)
    file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
    set(header ${CMAKE_BINARY_DIR}/${folder}/${stem}_generated.h)
    add_custom_command(
      OUTPUT ${header}
      COMMAND ${FLATC_EXECUTABLE} --cpp --cpp-include runtime/Unaligned.h -o ${CMAKE_BINARY_DIR}/${folder} ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
      COMMAND ${FLATC_EXECUTABLE} --python -o ${CMAKE_BINARY_DIR}/python ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
      DEPENDS ${ARGN} ${CMAKE_SOURCE_DIR}/cmake/FlatBuffers.cmake # a schema may include the others of its folder
      COMMENT "flatc ${folder}/${schema}")
    list(APPEND outputs ${header})
  endforeach()
  add_custom_target(${target} ALL DEPENDS ${outputs})
endfunction()
