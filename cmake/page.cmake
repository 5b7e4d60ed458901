# aorta_page(MODULE): the page of results becomes a C string of the module, aorta_page_template. esbuild bundles web/ into
# one file; npm installs it and what it bundles below web/node_modules, as web/package-lock.json pins them. Where Node.js
# is missing, or npm reaches nothing, the string is empty and the build goes on (`aorta info` reports it).
function(aorta_page module)
  set(web ${CMAKE_SOURCE_DIR}/web)
  execute_process(COMMAND test -w ${web} RESULT_VARIABLE read_only)
  if(read_only AND NOT EXISTS ${web}/node_modules)
    file(COPY ${web} DESTINATION ${CMAKE_BINARY_DIR} NO_SOURCE_PERMISSIONS) # npm writes beside the files that it bundles
    set(web ${CMAKE_BINARY_DIR}/web)
  endif()
  set(tools ${web}/node_modules/.package-lock.json) # npm writes it last
  set(page ${CMAKE_CURRENT_BINARY_DIR}/page_template.c)
  find_program(AORTA_NODE NAMES node nodejs)
  find_program(AORTA_NPM npm)
  if(AORTA_NODE AND AORTA_NPM AND (NOT EXISTS ${tools} OR ${web}/package-lock.json IS_NEWER_THAN ${tools}))
    message(STATUS "the page: npm installs what web/package-lock.json pins")
    execute_process(
      COMMAND ${AORTA_NPM} ci --ignore-scripts --no-audit --no-fund --fetch-retries=1 --fetch-timeout=30000
      WORKING_DIRECTORY ${web}
      TIMEOUT 120
      RESULT_VARIABLE failed
      OUTPUT_QUIET
      ERROR_VARIABLE complaint)
    if(failed)
      file(REMOVE_RECURSE ${web}/node_modules)
      string(REGEX MATCH "[^\n]*" complaint "${complaint}")
      message(STATUS "the page: npm failed (${complaint})")
    else()
      file(TOUCH ${tools})
    endif()
  endif()
  if(AORTA_NODE AND EXISTS ${tools})
    file(GLOB sources CONFIGURE_DEPENDS ${web}/*.js ${web}/*.mjs ${web}/*.css ${web}/*.html)
    add_custom_command(
      OUTPUT ${page}
      COMMAND ${AORTA_NODE} ${web}/build.mjs ${page}
      DEPENDS ${sources} ${tools}
      VERBATIM)
  else()
    set(separator ";")
    message(STATUS "the page: left out, as Node.js or its packages are missing")
    file(CONFIGURE OUTPUT ${page} CONTENT
         "extern const char aorta_page_template[];\nconst char aorta_page_template[] = \"\"@separator@\n" @ONLY)
  endif()
  target_sources(aorta_${module} PRIVATE ${page})
endfunction()
