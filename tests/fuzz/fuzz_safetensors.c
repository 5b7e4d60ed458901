/* Any bytes as a file of tensors: an error, or tensors whose data lie in the file and that, written out, read the same.
 */
#include "fuzz.h"
#include "train/weights.h"

/* Touches every byte, so that the sanitizer sees data outside the file. */
static unsigned sum_of(const struct aorta_safetensors *file) {
    unsigned sum = 0;
    for (size_t i = 0; i < file->count; i++) {
        const unsigned char *bytes = file->tensors[i].data;
        size_t length = (size_t)aorta_tensor_elements(&file->tensors[i]) * aorta_dtype_size(file->tensors[i].dtype);
        for (size_t b = 0; b < length; b++) sum = sum * 31 + bytes[b];
        if (!aorta_safetensors_find(file, file->tensors[i].name)) abort();
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[FUZZ_PATH];
    fuzz_path(path, "safetensors");
    fuzz_write(path, data, size);
    struct aorta_safetensors file, again;
    aorta_status status = aorta_safetensors_read(path, &file);
    if (status) {
        if (aorta_status_code(status) != AORTA_FORMAT || !strstr(aorta_status_message(status), path)) abort();
        aorta_status_free(status);
        unlink(path);
        return 0;
    }
    status = aorta_safetensors_write(path, file.tensors, file.count);
    if (!status) status = aorta_safetensors_read(path, &again);
    unlink(path);
    if (status) {
        fprintf(stderr, "what was written does not read: %s\n", aorta_status_message(status));
        abort();
    }
    if (again.count != file.count || sum_of(&again) != sum_of(&file)) abort();
    aorta_safetensors_free(&again);
    aorta_safetensors_free(&file);
    return 0;
}
