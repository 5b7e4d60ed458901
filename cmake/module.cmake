# aorta_module(NAME [USES module...] [LIBS library...]): one module of src/ as a static library of all its .c files. The
# same objects are linked into the program, libaorta.so and the tests' vendor libraries, hidden from each other.
function(aorta_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "USES;LIBS")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
  add_library(aorta_${name} STATIC ${sources})
  target_include_directories(aorta_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM arg_USES PREPEND aorta_)
  target_link_libraries(aorta_${name} PUBLIC ${arg_USES} ${arg_LIBS} Threads::Threads m)
  set_target_properties(aorta_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
endfunction()

# aorta_embed(MODULE NAME FILE.cu [DEFINES NAME[=VALUE]...] HEADERS header...): the text of a GPU's kernels becomes a C
# string of the module, aorta_source_NAME; it is made anew when one of the headers changes.
function(aorta_embed module name input)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "" "DEFINES;HEADERS")
  list(JOIN arg_DEFINES "," defines)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${name}.cu.c)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${input} -DNAME=aorta_source_${name} -DINCLUDE=${CMAKE_SOURCE_DIR}/src
            -DOUTPUT=${output} "-DDEFINES=${defines}" -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${input} ${arg_HEADERS} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)
  target_sources(aorta_${module} PRIVATE ${output})
endfunction()

# aorta_text(MODULE NAME FILE): the text of a file becomes a C string of the module, aorta_text_NAME.
function(aorta_text module name input)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${name}.text.c)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${input} -DNAME=aorta_text_${name} -DOUTPUT=${output} -P ${CMAKE_SOURCE_DIR}/cmake/text.cmake
    DEPENDS ${input} ${CMAKE_SOURCE_DIR}/cmake/text.cmake
    VERBATIM)
  target_sources(aorta_${module} PRIVATE ${output})
endfunction()

# aorta_tests(MODULE [USES module...] [LIBS library...]): every test_*.c of this folder is a cmocka program and a CTest test
# MODULE.NAME; the other .c files are helpers linked into each, as FOLDER_test_helpers (with _ for / in the folder).
function(aorta_tests module)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "USES;LIBS")
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/test_*.c)
  file(GLOB helpers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
  list(REMOVE_ITEM helpers ${tests})
  list(TRANSFORM arg_USES PREPEND aorta_)
  set(shared)
  if(helpers)
    file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
    string(REPLACE "/" "_" shared ${folder}_test_helpers)
    add_library(${shared} OBJECT ${helpers})
    target_include_directories(${shared} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_link_libraries(${shared} PUBLIC ${arg_LIBS} aorta_${module} ${arg_USES} cmocka)
  endif()
  foreach(source ${tests})
    get_filename_component(stem ${source} NAME_WE)
    string(REPLACE "test_" "" label ${stem})
    set(target ${stem}_${module})
    add_executable(${target} ${source})
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_compile_definitions(${target} PRIVATE TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data")
    target_link_libraries(${target} PRIVATE ${shared} ${arg_LIBS} aorta_${module} ${arg_USES} cmocka)
    add_test(NAME ${module}.${label} COMMAND ${target})
  endforeach()
endfunction()
