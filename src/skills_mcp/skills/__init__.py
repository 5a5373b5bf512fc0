"""What a skill is: from the files of a folder to skills and their relations."""
